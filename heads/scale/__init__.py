"""The same jobs on more than one machine: the only folder that knows Ray."""

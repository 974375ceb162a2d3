"""What puts the app elsewhere: a Space as it is pushed, and the locks of its packages."""

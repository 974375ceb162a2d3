"""Base models that are learned together with a head, on a copy of their own.

Transformers' Trainer and Accelerate are not what drives the loop, for three reasons: a run streams
events, stops within a step and goes on after a kill, and Trainer's `train` returns at the end; both
keep one device, one precision and one state of random numbers a process, and here several cells and
several visitors share one; and the last layers are trained from states that are kept at the cut.
What they are made of is used: torch's AdamW and autocast, Transformers' schedule and gradient
checkpointing, PEFT's adapters. A test holds the losses to those of Trainer, step by step.

SetFit is the exception: its pairs, its loss and its loop are the library's own, so that it is what
others know by that name. A stop ends it within a step all the same, and others draw their random
numbers between its steps; but a kill costs the training that is under way.
"""

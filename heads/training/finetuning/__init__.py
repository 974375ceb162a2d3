"""Base models that are learned together with a head, on a copy of their own.

Transformers' Trainer and Accelerate are not what drives the loop, for three reasons: a run streams
events, stops within a step and goes on after a kill, and Trainer's `train` returns at the end; both
keep one device, one precision and one state of random numbers a process, and here several cells and
several visitors share one; and the last layers are trained from states that are kept at the cut.
What they are made of is used: torch's AdamW and autocast, Transformers' schedule and gradient
checkpointing, PEFT's adapters. A test holds the losses to those of Trainer, step by step.

SetFit's contrastive stage is the exception: the pairs, the loss and the loop are its library's, on a
copy of the base model like all others; what costs the checkpoints within a training.
"""

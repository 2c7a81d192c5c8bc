"""Random programs of memory, streams and graphs, compared with a model. See docs/testing.md.

python -m tests.fuzz --seeds 0:2000             the programs that scripts/test runs
python -m tests.fuzz --seeds 17                 one program; a failure is printed as a short Python program
python -m tests.fuzz --interrupts --seeds 0:60  the same with a Ctrl-C at a random moment of each
"""

"""Hardware faults of a simulated card: bits of its memories, cores, links and DRAM channels. No kernel knows of them:
memory and cores are watched by observers of a run, a slow channel changes the system description that costs are made
from."""

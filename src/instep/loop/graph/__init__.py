"""The autograd graph of a forward, as data: what torch recorded, which module did it, what it keeps for the backward."""

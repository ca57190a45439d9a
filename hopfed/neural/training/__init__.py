"""Local training: client by client, or all clients of one architecture at once.

Networks, data and an optimizer's settings come in; trained parameters, losses and costs go out.
"""

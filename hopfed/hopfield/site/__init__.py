"""The site of an owner: what it agrees to answer, what has left it, and what noise that costs.

In: a server's questions, and the limits that the owner of a file sets. Out: an answer within them,
or one line that says why there is none; a record of both.
"""

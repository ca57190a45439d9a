"""What the server does about clients that lie: what it believes, refuses and leaves out.

In: the messages of a round. Out: those that rows could have produced, each with the size that is
believed, and the archetypes that do not hang on one client alone.
"""

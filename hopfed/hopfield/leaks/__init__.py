"""What an exact table of pairs of columns gives away about single rows: searched before it leaves.

In: the rows of a batch. Out: the columns, values or relations by which somebody could read a row
off the table, if there are any.
"""

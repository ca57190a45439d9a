"""HTML page and tables about runs.

Run files come in; rows of numbers and one HTML file go out.
"""

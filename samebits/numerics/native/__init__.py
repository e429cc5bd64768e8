"""C11 kernels and their loader.

The same bits as the reference, faster; absent where no compiler was.
"""

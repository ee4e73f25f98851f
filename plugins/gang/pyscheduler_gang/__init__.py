"""Gang scheduling as in Koordinator: members of a gang are bound only after enough of them have found nodes.

Begin with `plugin`.
"""

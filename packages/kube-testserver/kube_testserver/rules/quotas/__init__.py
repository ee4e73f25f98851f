"""ResourceQuotas: compute the amounts that an object uses, and refuse writes that exceed a quota."""

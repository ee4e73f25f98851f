"""ResourceQuotas: the amounts that each object uses (`usage`, `amounts`), and what is refused (`enforcement`)."""

"""ResourceQuotas: the amounts that an object uses (`usage`, `amounts`), and the refusal of writes (`enforcement`)."""

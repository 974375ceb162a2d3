"""How each kind of head is fitted: in closed form, by L-BFGS, by gradient descent."""

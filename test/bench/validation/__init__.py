"""The timing model against published times of an MI355X: rows, the kernels that stand for them, and the fit."""

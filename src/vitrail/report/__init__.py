"""The report of a run: one page that says how good the model is, where it fails, and how to use it; and its card."""

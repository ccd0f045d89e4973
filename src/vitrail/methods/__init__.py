"""How a batch becomes a loss: one file a method. The loop in `vitrail.train.loop` does the rest."""

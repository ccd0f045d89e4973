"""From settings and data to a trained model: one loop, whatever the method."""

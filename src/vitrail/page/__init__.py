"""What all pages of the product share: the frame, the look, text made safe, pictures as data."""

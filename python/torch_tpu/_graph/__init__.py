"""``torch.compile`` on the device: from Dynamo's FX graphs to whole programs."""

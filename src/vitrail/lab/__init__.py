"""The paper's claims, one file each, at a scale that two cores can run: `vitrail lab`.

`claim.py` says what a claim is, `runner.py` runs one, `verdict.py` judges. A claim is plain data and imports no torch.
"""

"""A model behind HTTP, with a page of its own. Needs the extra `serve`.

A request goes through, from the outside in: `door.py` (the socket), `connection.py` (bytes in time; `refusal.py` when
full), `watch.py` (log, figures, headers), `guard.py` (who may ask), `limits.py` (how much), `app.py` (routes), `v1.py`
and `v2.py` (answers), `batcher.py` (the engine) and `lane.py` (explanations). Each may say no; none says more than
`{"error": one line}`.
"""

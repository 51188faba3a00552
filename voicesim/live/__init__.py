"""Driving a real endpoint and writing down when its sound, or its tokens, arrived.

A request is an ``Exchange`` (``exchange.py``); ``speech.py``, ``completions.py`` and
``websocket.py`` each know one protocol; ``load.py`` keeps places full or sends at Poisson instants;
``measure.py`` plays the runs of a ``Plan`` (``plan.py``) and ``record.py`` writes them down.
"""

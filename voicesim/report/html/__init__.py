"""``report.html``: a finished folder as one page that a browser opens without any network.

``tags`` makes HTML, ``page`` a whole document of sections, ``charts`` the data that
``script-*.js`` draw; ``run`` is the page of a run, ``study`` the page of every other command.
"""

"""Single points: a decode step as AIConfigurator and as voicesim's roofline predict it, in ms.

https://github.com/ai-dynamo/aiconfigurator looks up operator times that NVIDIA measured on the card
(its static_gen mode: time per output token of a fixed batch, from 200 prompt tokens through 200
written ones); a roofline knows the data sheet only.  Both: Llama-3.1-8B in bf16 on one card.
"""

PROMPT, TOKENS = 200, 200
BATCHES = (1, 8, 32, 64, 128, 256)
CARDS = {"h100": "h100_sxm", "h200": "h200_sxm"}  # voicesim's names and AIConfigurator's
MODEL = {"ours": "llama-3.1-8b", "theirs": "meta-llama/Meta-Llama-3.1-8B"}
BACKENDS = ("vllm", "trtllm")


def roofline_ms(card: str) -> dict[int, float]:
    """voicesim: a step at the mean context, by batch; data sheets, nothing fitted."""
    from voicesim.calibrate.prior import read_prior, roofline

    profile = roofline(read_prior(f"gpu={card},model={MODEL['ours']}"), "point")
    context = PROMPT + TOKENS / 2
    return {batch: 1000.0 * profile.predict(batch, context) for batch in BATCHES}


def theirs_ms(card: str, backend: str) -> dict[int, float]:
    """AIConfigurator: time per output token, by batch, of the newest version it has data of."""
    import logging

    from aiconfigurator.cli.api import cli_estimate

    logging.disable(logging.WARNING)
    found = {}
    for batch in BATCHES:
        estimate = cli_estimate(
            MODEL["theirs"], CARDS[card], mode="static_gen", backend_name=backend,
            batch_size=batch, isl=PROMPT, osl=TOKENS,
        )  # fmt: skip
        found[batch] = tpot_ms(estimate)
    return found


def tpot_ms(estimate) -> float:
    """Milliseconds a token, of its EstimateResult."""
    return float(estimate.tpot)


def run(theirs: bool) -> list[dict]:
    """A row a card and batch; without AIConfigurator the roofline alone."""
    rows = []
    for card in CARDS:
        columns = {"voicesim": roofline_ms(card)}
        if theirs:
            columns |= {backend: theirs_ms(card, backend) for backend in BACKENDS}
        for batch in BATCHES:
            values = {name: column[batch] for name, column in columns.items()}
            rows.append({"card": card, "batch": batch} | values)
    return rows

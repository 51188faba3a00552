"""Named hourly profiles of a day."""

SERVEGEN_M_SMALL: tuple[float, ...] = (
    0.84, 0.71, 0.73, 0.68, 0.71, 0.66, 0.68, 0.85, 1.02, 1.05, 1.13, 1.09,
    1.06, 1.07, 1.06, 1.05, 1.09, 1.08, 1.01, 1.23, 1.46, 1.40, 1.27, 1.06,
)  # fmt: skip
"""Hour-of-day profile over its mean, hours 0 to 23, computed from the m-small trace of ServeGen
(Alibaba, Apache-2.0, arXiv 2505.09999): the cleanest day of its four models."""

PROFILES = {"servegen_m_small": SERVEGEN_M_SMALL}

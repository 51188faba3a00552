"""What the operators of a run did and what befell it, in order."""

from dataclasses import dataclass, field


@dataclass
class Log:
    """Rows of (time s, what, pool, replica or -1, value): what the controllers of one run note."""

    rows: list[tuple[float, str, str, int, float]] = field(default_factory=list)

    def note(
        self, t: float, what: str, pool: str = "", replica: int = -1, value: float = 0.0
    ) -> None:
        """Note something at ``t`` (s); what: one or two words, the same for the same thing."""
        self.rows.append((float(t), what, pool, int(replica), float(value)))

"""Loss and recall by budget as an SVG: two panels, told apart by dash and mark, not by colour."""

WIDTH, HEIGHT, PANEL, TOP, BOTTOM = 860, 330, 350, 46, 270
STYLES = {"H2O": ("#075a8e", "", "circle"), "STREAMING": ("#5a6066", "6 4", "square")}


def scale(values, steps=5):
    """The ticks of an axis from 0 that covers the values."""
    highest = max(values)
    for step in (f * 10**e for e in range(-3, 4) for f in (1, 2, 5)):
        if step * steps >= highest:
            break
    return [step * i for i in range(int(highest / step) + 2)]


def mark(kind, x, y, color, hollow):
    fill = "#fff" if hollow else color
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{color}"/>'
    return (
        f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{fill}" '
        f'stroke="{color}"/>'
    )


def panel(left, title, series, ticks, label):
    """series: list of (name, hollow, [(budget, value)]); budgets and values are shares."""
    budgets = sorted({budget for _, _, points in series for budget, _ in points})

    def x(budget):
        return left + budget / budgets[-1] * PANEL

    def y(value):
        low, high = ticks[0], ticks[-1]
        return BOTTOM - (value - low) / (high - low) * (BOTTOM - TOP)

    out = [f'<text x="{left}" y="24" font-size="15" font-weight="600">{title}</text>']
    for tick in ticks:
        out.append(
            f'<path d="M{left} {y(tick):.1f}h{PANEL}" stroke="#dcdfe3"/>'
            f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{100 * tick:g} %</text>'
        )
    for budget in budgets:
        out.append(
            f'<text x="{x(budget):.1f}" y="{BOTTOM + 20}" text-anchor="middle">'
            f"{100 * budget:g}</text>"
        )
    out.append(
        f'<text x="{left + PANEL / 2}" y="{BOTTOM + 42}" text-anchor="middle" fill="#5a6066">'
        "budget, % of prompt and answer</text>"
    )
    for name, hollow, points in series:
        color, dash, kind = STYLES[name]
        path = "L".join(f"{x(budget):.1f} {y(value):.1f}" for budget, value in points)
        out.append(
            f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2" '
            f'stroke-dasharray="{dash}"/>'
        )
        out += [mark(kind, x(budget), y(value), color, hollow) for budget, value in points]
        budget, value = points[min(label[name, hollow][0], len(points) - 1)]
        text, dx, dy = label[name, hollow][1:]
        out.append(
            f'<text x="{x(budget) + dx:.1f}" y="{y(value) + dy:.1f}" fill="{color}">{text}</text>'
        )
    return "\n".join(out)


def draw(runs):
    """`runs`: quality_report.Runs whose evictions are named "H2O 20 %" and the like."""
    losses, recalls = [], []
    full = runs.by_name["FULL"]
    for policy in STYLES:
        names = [name for name in runs.names() if name.startswith(policy + " ")]
        at = {name: float(name.split()[1]) / 100 for name in names}
        if not names:
            continue
        losses.append((policy, False, [(at[n], runs.loss(n, full)[0]) for n in names]))
        measured = [(at[n], runs.recall(n)) for n in names if runs.recall(n)]
        if measured:
            recalls.append((policy, False, [(budget, recall[0]) for budget, recall in measured]))
            recalls.append((policy, True, [(budget, recall[1]) for budget, recall in measured]))
    labels = {("H2O", False): (1, "H2O", -36, 10), ("STREAMING", False): (1, "STREAMING", 10, -6)}
    values = [value for _, _, points in losses for _, value in points]
    parts = [panel(64, "Loss of perplexity to FULL", losses, scale(values), labels)]
    if recalls:
        labels = {
            ("H2O", False): (3, "H2O, mean", -30, -12),
            ("H2O", True): (2, "H2O, p5", 8, 14),
            ("STREAMING", False): (-1, "STREAMING, mean", -98, 28),
            ("STREAMING", True): (3, "STREAMING, p5", 6, 20),
        }
        ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
        parts.append(panel(490, "Recall", recalls, ticks, labels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif" font-size="12" fill="#12171b">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )

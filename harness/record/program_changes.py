"""What differs between two programs, place by place: the ops that one of them lacks, and what stands there instead.

Ops of both are paired from the values that come from outside downwards, from ops that are paired upwards, and then by
what they are. What is left is the difference, and what of it hangs together is one site. Sites that are alike are one
change: it is named by the counts of its ops and by what differs in ops that stayed, never by a guess at the reason.
Standard library only.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from math import gcd
from operator import attrgetter

from opscope.base.digest import words_digest
from opscope.harness.record import program_graph
from opscope.harness.record.program_graph import ARGUMENT, HANDLES, LOADS, RETURN, Op, Program

MOST_NAMES = 6
"""Names of ops in a sentence."""
_BUFFER = re.compile(r"buffer_type<(\w+)>")
_SHARDING = re.compile(r"(?:<|memory_layout<)(interleaved|\w+_sharded)>")
CONST_EVAL = "const_eval"
"""The kind of a change in what is evaluated ahead."""
TEXT = "text"
"""The kind of a change in what is neither MLIR nor HLO."""
_LAYOUT, _TYPES, _MOVED = "layout", "types", "place (const-eval)"
Calls = Sequence[tuple[str, int]]
"""The kernels of one execution in their order, and the cycles of each."""
_ENDS = frozenset({ARGUMENT, RETURN})


@dataclass(frozen=True)
class Site:
    """A place where two programs differ: places of ops that the older one has, that the newer one has, and of ops of
    the newer one that stayed and read their operands from elsewhere."""

    gone: tuple[int, ...]
    come: tuple[int, ...]
    rewired: tuple[int, ...] = ()


_SIDES: tuple[Callable[[Site], tuple[int, ...]], ...] = attrgetter("gone"), attrgetter("come")


@dataclass(frozen=True)
class Change:
    """Sites that are alike."""

    what: str
    """`ttnn.typecast -46; types of ttnn.where`."""
    kind: str
    """`ops`, `const_eval`, `layout`, `types`, `attributes` or `wiring`."""
    sites: int
    counts: Mapping[str, tuple[int, int]]
    """Op -> how many of it stood in these sites, before and now."""
    alike: str
    """Equal for changes that are alike in any program: ops in proportion, and what differs in those that stayed."""
    aspects: frozenset[tuple[str, str]] = frozenset()
    """In what ops of one name differ: (what, the op's name)."""
    cycles: int | None = None
    """Those that its ops cost now beyond those of before; None where that is not known of each."""

    @property
    def name(self) -> str:
        """What commands call it: of changes that are alike in any program, the same."""
        return name_of(self.alike)

    @property
    def net(self) -> dict[str, int]:
        """Op -> how many more there are."""
        return {name: now - before for name, (before, now) in self.counts.items() if now != before}


def name_of(alike: str) -> str:
    """The name of changes that are `alike`: 8 hex digits."""
    return words_digest(alike, digits=8)


def changes_of_counts(old: Mapping[str, int], new: Mapping[str, int]) -> list[Change]:
    """What differs between two programs of which only the counts of ops are known."""
    counts = {name: (old.get(name, 0), new.get(name, 0)) for name in sorted(old.keys() | new.keys())}
    differing = {name: both for name, both in counts.items() if both[0] != both[1]}
    signs = str([(name, now > before) for name, (before, now) in differing.items()])
    return [Change(_what(differing, frozenset()), "ops", 1, differing, signs)] if differing else []


def changes_of_texts(old: str, new: str, calls: tuple[Calls, Calls] = ((), ())) -> list[Change]:
    """What differs between two programs, of their IR. Texts of neither MLIR nor HLO differ or are equal, as a whole."""
    before, now = program_graph.read(old), program_graph.read(new)
    if any(True for _ in before.computing) and any(True for _ in now.computing):
        return changes(before, now, calls)
    return [] if old == new else [Change("the text of the program", TEXT, 1, {}, TEXT)]


def together(alike: Sequence[Change]) -> Change:
    """Changes that are alike, of several programs, as one."""
    sums: dict[str, tuple[int, int]] = {}
    for name, (before, now) in (item for change in alike for item in change.counts.items()):
        sums[name] = sums.get(name, (0, 0))[0] + before, sums.get(name, (0, 0))[1] + now
    aspects = frozenset(aspect for change in alike for aspect in change.aspects)
    kinds = {change.kind for change in alike}
    kind = alike[0].kind if len(kinds) == 1 else "ops"
    sites_of_all = sum(change.sites for change in alike)
    return Change(_what(sums, aspects) or alike[0].what, kind, sites_of_all, sums, alike[0].alike, aspects)


def changes(old: Program, new: Program, calls: tuple[Calls, Calls] = ((), ())) -> list[Change]:
    """What differs between two programs, the change of most sites first; none exactly where their digests are equal.

    Each with its price, where the kernels that ran are given.
    """
    alike: dict[Hashable, list[Site]] = defaultdict(list)
    cut = len({sum(op.name in LOADS for op in program.ops) for program in (old, new)}) > 1
    for site in sites(old, new):
        # Where const-eval is cut into functions in another way, all that is evaluated ahead is one matter.
        ahead = cut and (_is_ahead(old, new, site) or _moved(old, new, [site]))
        alike[CONST_EVAL if ahead else _signature(old, new, site)].append(site)
    costs = _costs(old, calls[0]), _costs(new, calls[1])
    found = [replace(_change(old, new, of, str(key)), cycles=_price(costs, of)) for key, of in alike.items()]
    return sorted(found, key=lambda change: (-change.sites, change.what))


def sites(old: Program, new: Program) -> list[Site]:
    """The places where two programs differ."""
    if old.digest == new.digest:
        return []
    pairing = _Pairing(old, new)
    gone = {place for place in range(len(old.ops)) if place not in pairing.new_of}
    come = {place for place in range(len(new.ops)) if place not in pairing.old_of}
    joined = _Joined()
    for side, (left, program) in enumerate(((gone, old), (come, new))):
        for place, op in enumerate(program.ops):
            for operand, (source, _) in enumerate(op.sources):
                if place in left and source in left:
                    joined.join((side, place), (side, source))
                elif source in left:  # what reads it stayed: what it reads there now belongs to the same site
                    joined.join((side, source), ("read by", place if side else pairing.new_of[place], operand))
        unread = Counter[str]()
        for place in sorted(left):
            if not pairing.users[side][place]:  # as one that writes to its operand: it is the next of its name there
                name = program.ops[place].name
                joined.join((side, place), ("unread", name, unread[name]))
                unread[name] += 1
    groups: dict[Hashable, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, left in enumerate((gone, come)):
        for place in sorted(left):
            groups[joined.root((side, place))][side].append(place)
    found = [Site(tuple(before), tuple(now)) for before, now in groups.values()]
    found += [Site((), (), (place,)) for place in sorted(pairing.old_of) if pairing.reads_elsewhere(place)]
    if not found:  # twins that are told apart by nothing but what reads them
        found = [
            Site((), (), tuple(place for place in sorted(pairing.old_of) if pairing.reads_elsewhere(place, sure=False)))
        ]
    return sorted(found, key=lambda site: (site.come or site.rewired or site.gone or (0,))[0])


class _Joined:
    """Things that belong together."""

    def __init__(self) -> None:
        self._above: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """The thing that stands for all that one belongs to."""
        while (above := self._above.get(thing, thing)) != thing:
            self._above[thing] = self._above.get(above, above)
            thing = above
        return thing

    def join(self, one: Hashable, other: Hashable) -> None:
        """Puts two things together."""
        self._above[self.root(one)] = self.root(other)


class _Pairing:
    """Which op of the newer program is which of the older one."""

    def __init__(self, old: Program, new: Program) -> None:
        self.old, self.new = old, new
        self.old_of: dict[int, int] = {}
        self.new_of: dict[int, int] = {}
        self._loose: set[int] = set()
        """Ops of the newer program that were paired by what they are alone."""
        self._same: dict[str, list[int]] = defaultdict(list)
        for place, op in enumerate(old.ops):
            self._same[op.key].append(place)
        self.users = old.users(), new.users()
        for place, op in enumerate(new.ops):
            if op.name == RETURN and (free := self._free(op.key)):
                self._pair(place, free[0])
        self._spread()
        for loose in (False, True):
            for place in self._unpaired():
                best = max(
                    self._free(new.ops[place].key), key=lambda each, at=place: self._near(at, each), default=None
                )
                if best is not None and (loose or self._near(place, best)):
                    self._pair(place, best)
                    if not self._near(place, best):
                        self._loose.add(place)
            self._spread()

    def _free(self, key: str) -> list[int]:
        return [place for place in self._same.get(key, ()) if place not in self.new_of]

    def _unpaired(self) -> list[int]:
        return [place for place in range(len(self.new.ops)) if place not in self.old_of]

    def _pair(self, place: int, old: int) -> None:
        self.old_of[place], self.new_of[old] = old, place

    def _spread(self) -> None:
        """Pairs downwards ops all of whose operands are paired, and upwards what paired ops read."""
        while True:
            before = len(self.old_of)
            read_by: dict[Hashable, list[int]] = defaultdict(list)
            for place, op in enumerate(self.old.ops):
                if place not in self.new_of:
                    read_by[op.key, op.sources].append(place)
            for place in self._unpaired():
                op = self.new.ops[place]
                if all(source in self.old_of for source, _ in op.sources):
                    sources = tuple((self.old_of[source], number) for source, number in op.sources)
                    free = [old for old in read_by.get((op.key, sources), ()) if old not in self.new_of]
                    if free:
                        self._pair(place, max(free, key=lambda each, at=place: self._near(at, each)))
            for place in reversed(self._unpaired()):
                op = self.new.ops[place]
                for user, operand in self.users[1][place]:
                    if user not in self.old_of or operand >= len(self.old.ops[self.old_of[user]].sources):
                        continue
                    source, number = self.old.ops[self.old_of[user]].sources[operand]
                    same = self.old.ops[source].key == op.key and number == self.new.ops[user].sources[operand][1]
                    if same and source not in self.new_of:
                        self._pair(place, source)
                        break
            if len(self.old_of) == before:
                return

    def _near(self, place: int, old: int) -> int:
        """How many ops around one are paired with those around another."""
        sources = zip(self.new.ops[place].sources, self.old.ops[old].sources, strict=False)
        near = sum(one[1] == other[1] and self.old_of.get(one[0]) == other[0] for one, other in sources)
        users = {(self.old_of.get(user), operand) for user, operand in self.users[1][place]}
        return near + len(users & {*self.users[0][old]})

    def reads_elsewhere(self, place: int, *, sure: bool = True) -> bool:
        """Whether an op that stayed reads a value that stayed, but another one than before.

        If `sure`, neither counts if it was paired by what it is alone, or if it is beside an op that came or went.
        """
        op, before = self.new.ops[place], self.old.ops[self.old_of[place]]
        elsewhere = False
        if sure and place in self._loose:
            return False
        for one, other in zip_longest(op.sources, before.sources):
            if (one and one[0] not in self.old_of) or (other and other[0] not in self.new_of):
                if sure:
                    return False  # it is beside a site, and part of that
            elif (one and (self.old_of[one[0]], one[1])) != other and not (sure and one and one[0] in self._loose):
                elsewhere = True
        return elsewhere


# --- what a change costs


def _costs(program: Program, calls: Calls) -> list[int | None]:
    """The cycles of each op: the n-th of a name costs what the n-th call of its kernel did, 0 where none can be its.

    None where there are not as many of both, as in a loop. A kernel of another name (`broadcast` of `ttnn.repeat`) is
    that of the only ops without one of which there are as many.
    """
    applied = {(op.name.rpartition(".")[2], word) for op in program.ops for word in _applied(op)}
    of_kernel: dict[str, list[int]] = defaultdict(list)
    last, before = "", 0
    for place, (kernel, cycles) in enumerate(calls):
        after = calls[place + 1][0] if place + 1 < len(calls) else ""
        if (last, kernel) in applied:  # what an op applies to its result ran as a kernel of its own
            of_kernel[last][-1] += cycles
        elif (after, kernel) in applied:  # and what it applies to what it reads
            before += cycles
        else:
            of_kernel[kernel].append(before + cycles)
            last, before = kernel, 0
    each_time = [
        (place, op.name.rpartition(".")[2])
        for place, op in enumerate(program.ops)
        if not op.ahead and op.name not in _ENDS | LOADS | HANDLES
    ]
    number = Counter(name for place, name in each_time if not program.ops[place].inside)
    others = {name: of_kernel.pop(name) for name in [*of_kernel] if not number[name] and any(of_kernel[name])}
    for cycles in others.values():
        alike = [name for name, count in number.items() if count == len(cycles) and name not in of_kernel]
        if len(alike) == 1 and [len(each) for each in others.values()].count(len(cycles)) == 1:
            of_kernel[alike[0]] = cycles
    known = sum(map(sum, of_kernel.values())) == sum(cycles for _, cycles in calls)
    left = {name: iter(cycles) for name, cycles in of_kernel.items() if len(cycles) == number[name]}
    costs: list[int | None] = [0 if calls else None] * len(program.ops)
    for place, name in each_time:
        if any(of_kernel.get(name, ())):
            costs[place] = next(left[name]) if name in left and not program.ops[place].inside else None
        elif not known and name not in of_kernel:
            costs[place] = None
    return costs


def _applied(op: Op) -> list[str]:
    """The words of an op's activation."""
    return [word for name, value in op.attributes if "activation" in name for word in re.findall(r"\w+", value)]


def _price(costs: tuple[list[int | None], list[int | None]], alike: Sequence[Site]) -> int | None:
    """What sites cost now beyond what they did."""
    before, now = (
        [side[place] for site in alike for place in of(site)] for side, of in zip(costs, _SIDES, strict=True)
    )
    known = [cycles for cycles in (*before, *now) if cycles is not None]
    return sum(known[len(before) :]) - sum(known[: len(before)]) if len(known) == len(before) + len(now) else None


# --- what a change is called


def memory_of(op: Op) -> str:
    """Where an op's first result is and how it is laid out: `l1 width_sharded`; empty where its type says nothing."""
    kind = op.results[0] if op.results else ""
    buffer, sharding = _BUFFER.search(kind), _SHARDING.search(kind)
    return " ".join(filter(None, (buffer and buffer[1], sharding and sharding[1])))


def _names(program: Program, places: Iterable[int]) -> Counter[str]:
    return Counter(op.name for op in (program.ops[place] for place in places) if op.name not in _ENDS)


def _signature(old: Program, new: Program, site: Site) -> Hashable:
    """What sites that are alike have in common: their ops in proportion, and what differs in ops that stayed."""
    before, now = _names(old, site.gone), _names(new, site.come)
    net = {name: now[name] - before[name] for name in before | now if now[name] != before[name]}
    if net:
        unit = gcd(*net.values())
        return tuple(sorted((name, count // unit) for name, count in net.items())), tuple(sorted(before & now))
    aspects = _aspects(old, new, site)
    if layouts := {name for what, name in aspects if what.startswith(_LAYOUT)}:
        return _LAYOUT, tuple(sorted(layouts))  # what reads a value that lies elsewhere has other types
    if _TYPES in (kinds := {what for what, _ in aspects}):
        return _TYPES, tuple(sorted(kinds))  # and so have all that follow
    return (), tuple(sorted(aspects))


def _is_ahead(old: Program, new: Program, site: Site) -> bool:
    """Whether all of a site is evaluated before the first run."""
    ops = [*(old.ops[place] for place in site.gone), *(new.ops[place] for place in site.come)]
    return bool(ops) and all(op.ahead or op.name in LOADS for op in ops)


def _moved(old: Program, new: Program, alike: Sequence[Site]) -> int:
    """How many ops more are evaluated ahead that were not, or the other way round, than came or went."""
    ahead, each_time = Counter[str](), Counter[str]()
    for sign, program, of in zip((-1, 1), (old, new), _SIDES, strict=True):
        for op in (program.ops[place] for site in alike for place in of(site)):
            if op.name not in _ENDS | LOADS:
                (ahead if op.ahead else each_time)[op.name] += sign
    names = ahead.keys() | each_time.keys()
    moved = sum(min(abs(ahead[name]), abs(each_time[name])) for name in names if ahead[name] * each_time[name] < 0)
    return max(moved - sum(abs(ahead[name] + each_time[name]) for name in names), 0)


def _aspects(old: Program, new: Program, site: Site) -> set[tuple[str, str]]:
    """In what ops of one name differ: (what, the op's name)."""
    if site.rewired:
        return {("operands", new.ops[place].name) for place in site.rewired}
    by_name: dict[str, tuple[list[Op], list[Op]]] = defaultdict(lambda: ([], []))
    for side, (program, places) in enumerate(((old, site.gone), (new, site.come))):
        for place in places:
            by_name[program.ops[place].name][side].append(program.ops[place])
    found: set[tuple[str, str]] = set()
    for name, (gone, come) in by_name.items():
        for one, other in zip(gone, come, strict=False):
            found |= {(what, name) for what in _differing(one, other)}
    if not found and _names(old, site.gone) == _names(new, site.come):  # the same ops, elsewhere in the graph
        found = {("uses" if name == ARGUMENT else "operands", name) for name in by_name}
    return found


def _differing(one: Op, other: Op) -> set[str]:
    before, now = dict(one.attributes), dict(other.attributes)
    found = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    if "" not in (memory_of(one), memory_of(other)) and memory_of(one) != memory_of(other):
        found.add(f"{_LAYOUT} ({memory_of(one)} -> {memory_of(other)})")
    elif (one.operands, one.results) != (other.operands, other.results):
        exchanged = one.results == other.results and sorted(one.operands) == sorted(other.operands)
        found.add("operands" if exchanged else _TYPES)
    if one.holds != other.holds:
        found = found - {"computation"} | {"fused ops"}
    if (one.ahead, one.inside) != (other.ahead, other.inside):
        found.add(_MOVED if one.ahead != other.ahead else "place")
    return found


def _change(old: Program, new: Program, alike: list[Site], signature: str) -> Change:
    before, now = Counter[str](), Counter[str]()
    aspects: set[tuple[str, str]] = set()
    ahead = True
    for site in alike:
        before += _names(old, site.gone)
        now += _names(new, site.come)
        aspects |= _aspects(old, new, site)
        ahead &= _is_ahead(old, new, site)
    counts = {name: (before[name], now[name]) for name in sorted(before | now)}
    ahead = ahead or _moved(old, new, alike) > 0
    kind = _kind(any(one != two for one, two in counts.values()), {what for what, _ in aspects}, ahead=ahead)
    return Change(_what(counts, frozenset(aspects)), kind, len(alike), counts, signature, frozenset(aspects))


def _what(counts: Mapping[str, tuple[int, int]], aspects: frozenset[tuple[str, str]]) -> str:
    """Counts, then what differs in ops that stayed."""
    net = {name: now - before for name, (before, now) in counts.items() if now != before}
    parts = [", ".join(f"{name} {count:+d}" for name, count in _most(net))] if net else []
    by_aspect: dict[str, set[str]] = defaultdict(set)
    for what, name in aspects:
        by_aspect[what].add(name)
    return "; ".join([*parts, *(f"{what} of {_listed(sorted(of))}" for what, of in sorted(by_aspect.items()))])


def _kind(counted: bool, aspects: set[str], *, ahead: bool) -> str:
    if ahead:
        return CONST_EVAL
    if counted:
        return "ops"
    if any(what.startswith(_LAYOUT) for what in aspects):
        return "layout"
    return next((kind for kind in (_TYPES, "operands") if kind in aspects), "attributes").replace("operands", "wiring")


def _most(net: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(net.items(), key=lambda item: (-abs(item[1]), item[0]))[:MOST_NAMES]


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMES
    return " + ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")

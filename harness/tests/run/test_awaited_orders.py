"""What an xdist worker does that has started before its orders are known."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from opscope.harness.run.awaited_orders import LENT, ORDERS, AwaitedOrders, NoOrders, can_wait, wait_for


def place_for_this_process(orders: AwaitedOrders) -> dict[str, object]:
    """The place as a child of the controller gets it; here the controller has to be this process's parent."""
    return orders.place("gw0") | {"controller": os.getppid()}


def test_a_worker_gets_its_orders_once_there_are_some() -> None:
    orders = AwaitedOrders(["no-such-backend"])
    try:
        orders.making()
        later = threading.Timer(0.05, lambda: orders.give({"op": 1}))
        later.start()
        assert wait_for(place_for_this_process(orders)) == {"op": 1}
        orders.give(None)
        assert wait_for(place_for_this_process(orders)) == {"op": 1}, "they are given once"
        later.join()
    finally:
        orders.close()


def test_a_worker_ends_where_there_will_be_no_orders() -> None:
    orders = AwaitedOrders(["null"])
    with pytest.raises(NoOrders):
        wait_for(orders.place("gw0"))  # as if the controller had died: this process is not its own parent
    assert not Path(str(orders.place("gw0")["folder"])).exists(), "it is not left behind"
    orders.close()
    orders = AwaitedOrders(["null"])
    orders.give(None)
    with pytest.raises(NoOrders):
        wait_for(place_for_this_process(orders))
    place = place_for_this_process(orders)
    orders.close()
    assert not Path(str(place["folder"]), ORDERS).exists()
    assert not Path(str(place["folder"]), LENT).exists()
    with pytest.raises(NoOrders):
        wait_for(place)


@dataclass
class Spec:
    """What matters here of an execnet specification."""

    popen: bool = True
    via: str | None = None
    chdir: str | None = None


def test_only_children_of_this_process_wait() -> None:
    assert can_wait([Spec(), Spec()])
    assert not can_wait([Spec(), Spec(popen=False)])
    assert not can_wait([Spec(via="proxy")])
    assert not can_wait([Spec(chdir="elsewhere")])

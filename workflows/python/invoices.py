"""Writes invoices from a report that another step, in Rust, has made: the report comes by reference, and the invoices leave by reference."""

import csv
import json
import sqlite3
import sys
from decimal import ROUND_HALF_UP, Decimal

from monohull import slots

VAT = Decimal("0.19")


def cents(amount):
    return amount.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)


def main():
    # A view of the slot's memory: nothing is copied until it is decoded.
    with slots.get("report") as report:
        totals = json.loads(bytes(report), parse_float=Decimal)["by_customer"]

    database = sqlite3.connect(":memory:")
    database.execute("create table invoice (number integer primary key, customer text, net text, vat text)")
    for customer, net in sorted(totals.items()):
        database.execute("insert into invoice (customer, net, vat) values (?, ?, ?)", (customer, str(cents(net)), str(cents(net * VAT))))

    lines = ["number,customer,net,vat,gross\r\n"]
    table = csv.writer(Lines(lines))
    for number, customer, net, vat in database.execute("select * from invoice order by number"):
        table.writerow([number, customer, net, vat, Decimal(net) + Decimal(vat)])
        print(f"{number}. {customer:<8} {net:>8}")
    text = "".join(lines).encode()

    # Memory that the slot takes over as it is.
    room = slots.make(len(text))
    room[:] = text
    slots.put("invoices", room)
    print(f"{len(lines) - 1} invoices", file=sys.stderr)


class Lines:
    """What `csv` writes to."""

    def __init__(self, lines):
        self.write = lines.append


main()

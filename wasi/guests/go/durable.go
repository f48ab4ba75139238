package main

import (
	"errors"
	"fmt"
	"monohull"
	"os"
	"strings"
	"time"
)

const day = 24 * time.Hour

// The value of an argument.
func argument(name string) string {
	for _, argument := range os.Args {
		if value, is := strings.CutPrefix(argument, name); is {
			return value
		}
	}
	return ""
}

// Durable calls, for tests: each prints what has become of it.
func durable(act string) {
	switch act {
	case "wait":
		wait()
	case "save":
		fmt.Println("before")
		came, err := monohull.Checkpoint("here")
		must(err)
		fmt.Println(map[bool]string{false: "went on", true: "came back"}[came])
		time.Sleep(day)
		fmt.Println("done")
	case "slots":
		slots()
	case "connect":
		connect()
	case "answers":
		answers()
	case "once":
		once()
	case "continue":
		continues(argument("--how="))
	case "refusals":
		_, _, err := monohull.Event(0, "")
		fmt.Println("event", errors.Is(err, monohull.Invalid), err)
		fmt.Println("send", errors.Is(monohull.Send("other", "paid", nil), monohull.NotPermitted))
		fmt.Println("start", errors.Is(monohull.Start("other", "one", nil), monohull.NotPermitted))
		_, err = monohull.Perform("none", nil)
		fmt.Println("perform", err != nil)
		_, err = monohull.Take("none")
		fmt.Println("slot", errors.Is(err, os.ErrNotExist), err)
		_, _, err = monohull.Event(0, "paid\nlate", "shipped")
		fmt.Println("names", errors.Is(err, monohull.Invalid), err)
		_, err = (&monohull.End{}).Output("")
		fmt.Println("output", errors.Is(err, monohull.NotFound))
	default:
		must(fmt.Errorf("unknown act %q", act))
	}
}

func show(what string, content []byte) {
	fmt.Printf("%s: %s\n", what, content)
	must(monohull.PublishState(what, string(content)))
}

func wait() {
	fmt.Println("waits")
	_, content, err := monohull.Event(7*day, "paid")
	if errors.Is(err, monohull.TimedOut) {
		fmt.Println("late")
	} else {
		must(err)
		show("paid", content)
	}
	name, content, err := monohull.Event(monohull.Forever, "shipped", "cancelled")
	must(err)
	show(name, content)
	_, _, err = monohull.Event(0, "paid")
	if errors.Is(err, monohull.TimedOut) {
		fmt.Println("another: 1")
	}
}

// An answer after a heartbeat, a rejection, one that does not come, a client that is silent.
func answers() {
	endings := map[monohull.Answered]string{
		monohull.AnswerCompleted: "completed", monohull.AnswerRejected: "rejected",
		monohull.AnswerTimedOut: "timed out", monohull.AnswerSilent: "silent",
	}
	waits := []struct{ timeout, heartbeat time.Duration }{{monohull.Forever, day}, {day, day}, {0, monohull.Forever}, {day, 0}}
	var callbacks []monohull.Callback
	for range waits {
		callback, err := monohull.NewCallback()
		must(err)
		callbacks = append(callbacks, callback)
	}
	must(monohull.PublishState("tokens", callbacks[0].Token+" "+callbacks[1].Token))
	for i, wait := range waits {
		ending, content, err := callbacks[i].Answer(wait.timeout, wait.heartbeat)
		must(err)
		fmt.Printf("%s %s\n", endings[ending], content)
	}
	_, _, err := monohull.Callback{Token: "paid"}.Answer(0, 0)
	fmt.Printf("of %s, %d for other tokens\n", monohull.Invocation(), errors.Unwrap(err))
}

// Effects on the outside: one of them fails twice.
func once() {
	tried := 0
	must(monohull.Once("pay", 3, func(key string) error {
		tried++
		fmt.Println(tried, key)
		if tried < 3 {
			return errors.New("busy")
		}
		return nil
	}))
	err := monohull.Once("pay", 1, func(key string) error {
		fmt.Println(key)
		return errors.New("refused")
	})
	fmt.Println(err)
}

// Bytes of a slot that is handed on without a copy.
const large = 4 << 20

// Fills a slot and takes it over again, small and large, and says which instance it is.
func slots() {
	_, err := monohull.TryTake("large")
	fmt.Println("empty:", err == monohull.ErrEmpty)
	content := make([]byte, large)
	for i := range content {
		content[i] = byte(i * 7)
	}
	must(monohull.PublishMoved("large", content))
	fmt.Println("moved:", content[1] == 0 && content[large-1] == 0)
	taken, err := monohull.Take("large")
	must(err)
	right := len(taken) == large
	for i := range taken {
		right = right && taken[i] == byte(i*7)
	}
	fmt.Println("taken:", right)
	must(monohull.Publish("small", []byte{1, 2, 3}))
	small, err := monohull.Take("small")
	must(err)
	fmt.Println("small:", small)
	must(monohull.Publish("nothing", nil))
	nothing, err := monohull.Take("nothing")
	must(err)
	fmt.Println("nothing:", len(nothing))
	fmt.Println(monohull.Index(), "of", monohull.Count(), "attempt", monohull.Attempt(), monohull.Step())
}

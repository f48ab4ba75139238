package monohull

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"
)

// How often the steps of each name were begun.
var (
	usesLock sync.Mutex
	uses     = map[string]int{}
)

// Pauses between attempts: the first, and the longest.
const (
	firstPause   = time.Second
	longestPause = time.Hour
)

// Once does what has an effect on the outside, such as a payment. Its key is the same when it is done again, after a kill, in a new attempt of the
// instance and after a rewind: an HTTP service gets it as its Idempotency-Key. It is tried at most so many times, with the same key and with pauses
// that grow from a second to an hour, in which the invocation may be suspended; each is shortened by up to a half, by a fixed rule, so that many that fail
// together do not try again together. The error is that of the last attempt.
func Once(name string, attempts int, act func(key string) error) error {
	key := keyOf(name)
	pause := firstPause
	for {
		attempts--
		err := act(key)
		if err == nil || attempts <= 0 {
			return err
		}
		time.Sleep(shortened(pause, key, attempts))
		pause = min(2*pause, longestPause)
	}
}

// Between half of a pause and all of it.
func shortened(pause time.Duration, key string, left int) time.Duration {
	sum := fnv.New64a()
	fmt.Fprint(sum, key, "/", left)
	half := pause / 2
	return half + half/1024*time.Duration(sum.Sum64()%1024)
}

// A key that no other step has, of this invocation or another: its parts are those of a native function's.
func keyOf(name string) string {
	usesLock.Lock()
	defer usesLock.Unlock()
	number := uses[name]
	uses[name]++
	return fmt.Sprintf("%s/%s/%d/%s/%d", Invocation(), Step(), Index(), name, number)
}

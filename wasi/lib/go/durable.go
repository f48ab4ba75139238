package monohull

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// Errors of durable calls, by the numbers of Monohull's hostcalls.
const (
	NotPermitted   = Number(-1)
	NotFound       = Number(-2)
	OutOfMemory    = Number(-12)
	Busy           = Number(-16)
	Exists         = Number(-17)
	Invalid        = Number(-22)
	MessageTooLong = Number(-90)
	TooMany        = Number(-105)
	TimedOut       = Number(-110)
	WrongType      = Number(-1001)
	NeverFilled    = Number(-1002)
	GivenAway      = Number(-1003)
)

// Number is what went wrong in a durable call. errors.Is compares an error with it.
type Number int32

// Error is an error without its explanation.
func (number Number) Error() string {
	return (&Error{Number: number}).Error()
}

// Error is an error of a durable call.
type Error struct {
	Number Number
	// Why, in words; may be empty.
	Why string
}

// Error is the explanation, or the number if there is none.
func (err *Error) Error() string {
	if err.Why != "" {
		return err.Why
	}
	return "error " + strconv.Itoa(int(err.Number)) + " of Monohull"
}

// Unwrap is the number.
func (err *Error) Unwrap() error {
	return err.Number
}

//go:wasmimport monohull event
func event(names unsafe.Pointer, length uint32, timeout uint64, taken unsafe.Pointer) int32

//go:wasmimport monohull send
func send(invocation unsafe.Pointer, invocationLength uint32, name unsafe.Pointer, nameLength uint32, bytes unsafe.Pointer, count uint32) int32

//go:wasmimport monohull state
func state(name unsafe.Pointer, nameLength uint32, text unsafe.Pointer, length uint32) int32

//go:wasmimport monohull handed_over
func handedOver(name unsafe.Pointer, length uint32, taken unsafe.Pointer) int32

//go:wasmimport monohull checkpoint
func checkpoint(label unsafe.Pointer, length uint32) int32

//go:wasmimport monohull fork
func fork(copies uint32, ids unsafe.Pointer) int32

//go:wasmimport monohull perform
func perform(effect unsafe.Pointer, effectLength uint32, request unsafe.Pointer, length uint32, reply unsafe.Pointer) int32

//go:wasmimport monohull last_error
func lastError(to unsafe.Pointer, room uint32) int32

// Forever is a timeout without an end.
const Forever = time.Duration(-1)

// Event waits for the first event of one of these names, at most so long, and takes it: its name, and its bytes. Without one in time the error is TimedOut.
func Event(timeout time.Duration, names ...string) (string, []byte, error) {
	for _, name := range names {
		// With a line break it would be several.
		if strings.ContainsFunc(name, func(character rune) bool { return character < ' ' }) {
			return "", nil, &Error{Number: Invalid, Why: "event " + strconv.Quote(name) + ": a name has no control characters"}
		}
	}
	all := strings.Join(names, "\n")
	var taken buffer
	which := event(start(all), size(all), nanoseconds(timeout), unsafe.Pointer(&taken))
	if which < 0 {
		return "", nil, failure(which)
	}
	content, err := taken.bytes()
	return names[which], content, err
}

// Send sends an event to another invocation.
func Send(invocation, name string, content []byte) error {
	bytes := unsafe.Pointer(unsafe.SliceData(content))
	return failure(send(start(invocation), size(invocation), start(name), size(name), bytes, uint32(len(content))))
}

// PublishState publishes a text about the invocation, which others see while it goes on.
func PublishState(name, text string) error {
	return failure(state(start(name), size(name), start(text), size(text)))
}

// HandedOver is what the version of the workflow before this one had published under the name.
func HandedOver(name string) (string, error) {
	var taken buffer
	if err := failure(handedOver(start(name), size(name), unsafe.Pointer(&taken))); err != nil {
		return "", err
	}
	content, err := taken.bytes()
	return string(content), err
}

// Checkpoint makes a save point. It is true if the invocation has been taken back there.
func Checkpoint(label string) (bool, error) {
	came := checkpoint(start(label), size(label))
	return came == 1, failure(came)
}

// Fork makes so many copies of the invocation. It says which one this is, 0 for the original, which gets the ids of the others.
func Fork(copies int) (int, []string, error) {
	var taken buffer
	which := fork(uint32(copies), unsafe.Pointer(&taken))
	if which < 0 {
		return 0, nil, failure(which)
	}
	if which > 0 {
		return int(which), nil, nil
	}
	ids, err := taken.bytes()
	return 0, strings.Fields(string(ids)), err
}

// Perform asks for an effect, and waits for the reply. If its handler has failed, the error has its report.
func Perform(effect string, request []byte) ([]byte, error) {
	var taken buffer
	bytes := unsafe.Pointer(unsafe.SliceData(request))
	answer := perform(start(effect), size(effect), bytes, uint32(len(request)), unsafe.Pointer(&taken))
	if answer < 0 {
		return nil, failure(answer)
	}
	reply, err := taken.bytes()
	if err == nil && answer == 1 {
		return nil, &HandlerError{Report: string(reply)}
	}
	return reply, err
}

// HandlerError says that the handler of an effect has failed.
type HandlerError struct {
	Report string
}

// Error is the handler's report.
func (err *HandlerError) Error() string {
	return err.Report
}

func nanoseconds(timeout time.Duration) uint64 {
	if timeout < 0 {
		return math.MaxUint64
	}
	return uint64(timeout)
}

// The error of an answer, if it is one, with its explanation.
func failure(answer int32) error {
	if answer >= 0 {
		return nil
	}
	return &Error{Number: Number(answer), Why: whole(lastError)}
}

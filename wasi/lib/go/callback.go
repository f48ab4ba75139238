package monohull

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

const tokenBegins = "callback-"

// Callback is a wait that a client ends which knows its token: POST /callbacks/ID/TOKEN of a server, or monohull send ID TOKEN. ID is Invocation.
type Callback struct {
	// Token is the name of an event that cannot be guessed.
	Token string
}

// Answered is how a client has answered.
type Answered int

// Ways in which a wait for an answer ends.
const (
	// AnswerCompleted comes with the answer.
	AnswerCompleted Answered = iota
	// AnswerRejected says that there will be none, and comes with why.
	AnswerRejected
	// AnswerTimedOut says that there was none in time.
	AnswerTimedOut
	// AnswerSilent says that the client has not told for as long as it may that it is still at it.
	AnswerSilent
)

// NewCallback makes a token.
func NewCallback() (Callback, error) {
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return Callback{}, err
	}
	return Callback{Token: tokenBegins + hex.EncodeToString(secret[:])}, nil
}

// Answer waits for the answer, at most for the timeout: how the client has answered, and what it has sent. With a heartbeat the client has to tell that it
// is still at it (POST .../TOKEN/heartbeat) before so much time is over, each time; with Forever one that tells so is refused.
func (callback Callback) Answer(timeout, heartbeat time.Duration) (Answered, []byte, error) {
	if !isToken(callback.Token) {
		return 0, nil, &Error{Number: Invalid, Why: "this is no token of a callback"}
	}
	names := []string{callback.Token, callback.Token + ":rejected"}
	if heartbeat >= 0 {
		names = append(names, callback.Token+":heartbeat")
	}
	begun := time.Now()
	for {
		left := timeout
		if timeout >= 0 {
			left = max(0, timeout-time.Since(begun))
		}
		isLast := heartbeat < 0 || left >= 0 && left <= heartbeat
		if !isLast {
			left = heartbeat
		}
		name, content, err := Event(left, names...)
		switch {
		case errors.Is(err, TimedOut) && isLast:
			return AnswerTimedOut, nil, nil
		case errors.Is(err, TimedOut):
			return AnswerSilent, nil, nil
		case err != nil:
			return 0, nil, err
		case name == names[0]:
			return AnswerCompleted, content, nil
		case name == names[1]:
			return AnswerRejected, content, nil
		}
	}
}

func isToken(text string) bool {
	digits, begins := strings.CutPrefix(text, tokenBegins)
	return begins && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

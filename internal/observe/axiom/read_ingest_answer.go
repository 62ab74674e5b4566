package axiom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is the outcome of sending some events.
type answer struct {
	failure error // why no answer came; then nothing else is set
	status  int
	message string    // what a refusal says, on one line
	wait    retryTime // when a limit says to come again

	brokeOff bool  // the answer is the beginning of an account
	counted  bool  // the answer is Axiom's account of the events:
	ingested int64 // so many were taken,
	failed   int64 // and so many were not,
	failures []failure
}

// failure is an event that was not taken. Axiom names it by its time alone.
type failure struct {
	at     string
	reason string
}

// retryTime is when to try again: a moment or a pause; neither is set if the answer has none.
type retryTime struct {
	at    time.Time
	after time.Duration
}

func readAnswer(status int, header http.Header, body []byte) answer {
	a := answer{status: status, wait: readRetryTime(status, header)}
	if status < 200 || status > 299 {
		a.message = readMessage(status, header, body)
		return a
	}
	var account struct {
		Ingested *int64 `json:"ingested"`
		Failed   int64  `json:"failed"`
		Failures []struct {
			Timestamp string `json:"timestamp"`
			Error     string `json:"error"`
		} `json:"failures"`
	}
	err := json.NewDecoder(bytes.NewReader(body)).Decode(&account)
	if err != nil || account.Ingested == nil {
		a.brokeOff = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		a.message = readMessage(status, header, body)
		return a
	}
	a.counted, a.ingested, a.failed = true, *account.Ingested, account.Failed
	for _, f := range account.Failures {
		a.failures = append(a.failures, failure{f.Timestamp, oneLine(f.Error)})
	}
	return a
}

// readMessage is the message of a refusal in any of its forms.
func readMessage(status int, header http.Header, body []byte) string {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	var refusal struct {
		Message string `json:"message"`
		Error   string `json:"error"`
		Code    any    `json:"code"`
	}
	if json.Unmarshal(body, &refusal) == nil {
		if text := refusal.Message + refusal.Error; text != "" {
			return oneLine(text)
		}
	}
	if kind == "text/html" {
		return "a page of HTML"
	}
	if text := oneLine(string(bytes.TrimSpace(body))); text != "" {
		return text
	}
	if text := http.StatusText(status); text != "" {
		return strings.ToLower(text)
	}
	return fmt.Sprintf("status %d", status)
}

// longestMessage is how much of a refusal is shown.
const longestMessage = 300

func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > longestMessage {
		text = strings.ToValidUTF8(text[:longestMessage], "") + "..."
	}
	return text
}

// readRetryTime finds when a limit ends: Retry-After, in seconds or as a date, or Axiom's own headers, in seconds
// since 1970. Every one of them may be missing, and none needs another.
func readRetryTime(status int, header http.Header) retryTime {
	if text := header.Get("Retry-After"); text != "" {
		if sec, err := strconv.ParseFloat(text, 64); err == nil && sec >= 0 && sec < 1e9 {
			return retryTime{after: time.Duration(sec * float64(time.Second))}
		}
		if at, err := http.ParseTime(text); err == nil {
			return retryTime{at: at}
		}
	}
	names := []string{"X-RateLimit-Reset", "X-IngestLimit-Reset"}
	if status == statusQuota {
		slices.Reverse(names)
	}
	for _, name := range names {
		sec, err := strconv.ParseFloat(header.Get(name), 64)
		switch {
		case err != nil || sec <= 0 || sec > 1e15:
		case sec < 1e7: // from now on
			return retryTime{after: time.Duration(sec * float64(time.Second))}
		case sec > 1e11: // in milliseconds
			return retryTime{at: time.UnixMilli(int64(sec))}
		default:
			return retryTime{at: time.Unix(int64(sec), 0)}
		}
	}
	return retryTime{}
}

// pause is how long to wait from now; 0 when no time is given, or the moment has passed.
func (r retryTime) pause(now time.Time) time.Duration {
	if !r.at.IsZero() {
		return max(0, r.at.Sub(now))
	}
	return max(0, r.after)
}

package discovery

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine/fleet"
	"github.com/millrace/millrace/internal/rollout"
	"github.com/millrace/millrace/internal/rollout/enginestate"
)

// Source is a list of engines outside Millrace that is read again and again: a file, or a DNS name.
type Source struct {
	name string
	read func(ctx context.Context) ([]enginestate.Engine, error)
}

// ParseSource reads "file:/path", whose lines are "http://host:port [max_in_flight=64] [id=gpu7]", or
// "dns:name:port", all of whose addresses are engines.
func ParseSource(text string) (*Source, error) { return parseSource(text, net.DefaultResolver) }

func parseSource(text string, resolver *net.Resolver) (*Source, error) {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "file":
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("engines from %q: want file:/absolute/path", text)
		}
		return &Source{text, func(context.Context) ([]enginestate.Engine, error) {
			data, err := os.ReadFile(rest)
			if err != nil {
				return nil, err
			}
			return parseList(data)
		}}, nil
	case "dns":
		host, port, err := net.SplitHostPort(rest)
		if err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("engines from %q: want dns:name:port", text)
		}
		return &Source{text, func(ctx context.Context) ([]enginestate.Engine, error) {
			return lookUp(ctx, resolver.LookupHost, host, port)
		}}, nil
	}
	return nil, fmt.Errorf("engines from %q: want file:/path or dns:name:port", text)
}

func parseList(data []byte) ([]enginestate.Engine, error) {
	var engines []enginestate.Engine
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		e := enginestate.Engine{URL: words[0]}
		for _, word := range words[1:] {
			if err := setOption(&e, word); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if _, err := fleet.NewMember(e, time.Time{}); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		engines = append(engines, e)
	}
	return engines, lines.Err()
}

func setOption(e *enginestate.Engine, word string) error {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "id":
		e.ID = rollout.EngineID(value)
		return nil
	case "max_in_flight":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("max_in_flight=%s: want a whole number", value)
		}
		e.MaxInFlight = n
		return nil
	}
	return fmt.Errorf("%q: after the address come id=NAME and max_in_flight=N", word)
}

func lookUp(
	ctx context.Context, resolve func(context.Context, string) ([]string, error), host, port string,
) ([]enginestate.Engine, error) {
	addresses, err := resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	slices.Sort(addresses) // resolvers rotate them
	var engines []enginestate.Engine
	for _, a := range slices.Compact(addresses) {
		id := strings.Trim(strings.NewReplacer(":", "-", "%", "-").Replace(a), "-") + "-" + port
		engines = append(engines, enginestate.Engine{ID: rollout.EngineID(id), URL: "http://" + net.JoinHostPort(a, port)})
	}
	return engines, nil
}

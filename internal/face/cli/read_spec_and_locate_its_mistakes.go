package cli

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/millrace/millrace/internal/face/apiclient"
)

// maxSpec bounds a spec file, as the server does.
const maxSpec = 1 << 20

func (s *session) readSpec(name string) ([]byte, error) {
	if name == "" {
		return nil, Usage("which spec? name a file with -f, or - for standard input")
	}
	data, err := s.ReadFile(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read spec: %w", err)
	case len(bytes.TrimSpace(data)) == 0:
		return nil, fmt.Errorf("%s is empty; see config/examples for run specs", name)
	case len(data) > maxSpec:
		return nil, Usage("%s is no run spec: it is larger than %d bytes", name, maxSpec)
	}
	return data, nil
}

// inFile adds the file name to the faults of a spec; the server knows it only as a request.
func inFile(err error, file string) error {
	var p *apiclient.Problem
	if file == "-" || !errors.As(err, &p) {
		return err
	}
	p.Detail = strings.ReplaceAll(p.Detail, "request:", file+":")
	for i := range p.Errors {
		fault := &p.Errors[i]
		fault.Message = strings.ReplaceAll(fault.Message, "request:", file+":")
		fault.Location = strings.Replace(fault.Location, "request:", file+":", 1)
	}
	return err
}

// place is where a server found a fault in a spec that it was sent.
var place = regexp.MustCompile(`request:[0-9]+:[0-9]+: `)

// inNoFile removes places from the faults of a spec that was generated.
func inNoFile(err error) error {
	var p *apiclient.Problem
	if errors.As(err, &p) {
		p.Detail = place.ReplaceAllString(p.Detail, "")
		for i := range p.Errors {
			p.Errors[i].Message = place.ReplaceAllString(p.Errors[i].Message, "")
		}
	}
	return err
}

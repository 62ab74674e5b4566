package access

import (
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/kit/settings"
	"github.com/millrace/millrace/internal/kit/settings/document"
)

// tokensFile is a file of grants. It holds hashes of tokens, never tokens.
type tokensFile struct {
	Tokens []tokenLine `json:"tokens"`
}

type tokenLine struct {
	Name    string   `json:"name"`
	Role    string   `json:"role"`
	Runs    []string `json:"runs"`
	SHA256  string   `json:"sha256"`
	Expires string   `json:"expires"`
}

var tokensTable = settings.ReadTable(tokensKeys)

//go:embed tokens_keys.json
var tokensKeys []byte

// ReadTokens reads a file of grants from YAML or JSON. Its error is settings.Faults: everything that is wrong, with
// places in the file called name.
func ReadTokens(name string, data []byte) ([]Grant, error) {
	var file tokensFile
	d := document.Open(tokensTable, name, data, &file)
	if !d.Readable() {
		return nil, d.Err()
	}
	d.Check(&file)
	grants := make([]Grant, len(file.Tokens))
	names, hashes := map[string]int{}, map[Hash]int{}
	for i, line := range file.Tokens {
		at := fmt.Sprintf("tokens[%d]", i)
		grants[i] = grantOf(d, at, line)
		if first, again := names[line.Name]; again && line.Name != "" {
			d.Fault(at+".name", "the same as tokens[%d].name; audits could not tell them apart", first)
		}
		if first, again := hashes[grants[i].Hash]; again && line.SHA256 != "" {
			d.Fault(at+".sha256", "the same as tokens[%d].sha256", first)
		}
		names[line.Name], hashes[grants[i].Hash] = i, i
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return grants, nil
}

func grantOf(d *document.Document, at string, line tokenLine) Grant {
	g := Grant{Name: line.Name, Role: Role(line.Role), Runs: line.Runs}
	if len(line.Name) > 100 || strings.ContainsFunc(line.Name, func(c rune) bool { return c < ' ' || c > '~' }) {
		d.Fault(at+".name", "use up to 100 printable ASCII characters")
	}
	hash, err := ParseHash(line.SHA256)
	if err != nil && line.SHA256 != "" {
		d.Fault(at+".sha256", "%v", err) // What stands there may be a token, and is not shown.
	}
	g.Hash = hash
	for i, pattern := range line.Runs {
		if !ValidPattern(pattern) {
			d.Fault(fmt.Sprintf("%s.runs[%d]", at, i), "%q: a run's name, with * for any text", pattern)
		}
	}
	switch {
	case g.Role == Operator && len(line.Runs) > 0:
		d.Fault(at+".runs", "an operator's token is for every run and for the fleet; leave runs out, or give another role")
	case (g.Role == Trainer || g.Role == Reader) && len(line.Runs) == 0:
		d.Fault(at+".runs", `is missing: name the runs that it is for, such as ["diplomacy-*"], or ["*"] for all`)
	}
	if line.Expires != "" {
		if g.Expires, err = time.Parse(time.RFC3339, line.Expires); err != nil {
			d.Fault(at+".expires", "%q: want a time such as 2027-01-31T00:00:00Z", line.Expires)
		}
	}
	return g
}

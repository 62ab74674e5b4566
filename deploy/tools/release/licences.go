package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// licences is what the authors of the modules that are in a program ask to be passed on with it: their licences and
// notices, word for word, and Go's own. A module that brings none is named.
func (r release) licences(built *debug.BuildInfo) ([]byte, error) {
	query := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}\t{{.Dir}}"}
	for _, m := range built.Deps {
		query = append(query, m.Path)
	}
	cmd := exec.Command("go", query...)
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	env := exec.Command("go", "env", "GOROOT")
	env.Dir = r.source
	root, err := env.Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	var out bytes.Buffer
	out.WriteString("Millrace's program has in it the modules below, under these terms.\n")
	lines := append([]string{"Go " + built.GoVersion + "\t" + strings.TrimSpace(string(root))},
		strings.Split(strings.TrimSpace(string(listed)), "\n")...)
	for _, line := range lines {
		module, dir, _ := strings.Cut(line, "\t")
		if err := appendTerms(&out, module, dir); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// terms is how files of licences and notices are called, in lower case.
var terms = []string{"license", "licence", "copying", "notice"}

// appendTerms writes what a module's folder has of licences and notices.
func appendTerms(out *bytes.Buffer, module, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", module, err)
	}
	found := 0
	for _, e := range entries {
		named := func(term string) bool { return strings.HasPrefix(strings.ToLower(e.Name()), term) }
		if e.IsDir() || !slices.ContainsFunc(terms, named) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n==== %s: %s\n\n%s\n", module, e.Name(), bytes.TrimSpace(text))
		found++
	}
	if found == 0 {
		fmt.Fprintf(out, "\n==== %s: brings no file of a licence; its repository says\n", module)
	}
	return nil
}

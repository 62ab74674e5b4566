package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/itchyny/gojq"

	"github.com/millrace/millrace/internal/kit/markdowntest"
)

// TestPageCommands runs the commands of pages that come with what they print, and compares. A command is a block marked
// sh with a block behind it that is not marked; the page's other sh blocks make files from others and print nothing.
// The programs that such a command may use are millrace itself, jq (here gojq: jq need not be on the machine of whoever
// tests), gunzip -c, head -N and column -t. go test ./cmd/millrace -run PageCommands -update writes what they print.
func TestPageCommands(t *testing.T) {
	t.Chdir("../..")
	for _, page := range []string{"README.md", "docs/diagnosis.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		shell := pageShell{t: t, files: map[string][]byte{}}
		ran := 0
		got := pageBlock.ReplaceAllStringFunc(string(text), func(block string) string {
			m := pageBlock.FindStringSubmatch(block)
			out := shell.run(strings.TrimSpace(m[1]))
			if m[2] == "" {
				return block
			}
			ran++
			return "```sh\n" + m[1] + "```\n\n```\n" + out + "```\n"
		})
		if ran == 0 {
			t.Errorf("%s has no command with what it prints", page)
		}
		switch {
		case got == string(text):
		case markdowntest.Update():
			if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("what the commands of %s print is not what it says; -update writes it. Printed now:\n%s", page,
				firstDifference(string(text), got))
		}
	}
}

// pageBlock is a block of commands, with the block of what they print if there is one.
var pageBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n(\n?```\n.*?```\n)?")

// firstDifference is the first line that differs, as it must be.
func firstDifference(was, is string) string {
	before, after := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range after {
		if i >= len(before) || before[i] != after[i] {
			return fmt.Sprintf("line %d: %s", i+1, after[i])
		}
	}
	return ""
}

// pageShell is the little of a shell that the pages need: pipes, quotes, and files that a command makes.
type pageShell struct {
	t     *testing.T
	files map[string][]byte
}

// run runs the lines of a block, of which each may go on over the next ones within a quote.
func (s *pageShell) run(block string) string {
	s.t.Helper()
	var out []byte
	for _, command := range pageWords(block) {
		out = append(out, s.pipeline(command)...)
	}
	return string(out)
}

func (s *pageShell) pipeline(stages [][]string) []byte {
	var data []byte
	for _, words := range stages {
		into := ""
		if n := len(words); n > 2 && words[n-2] == ">" {
			into, words = words[n-1], words[:n-2]
		}
		data = s.program(words, data)
		if into != "" {
			s.files[into], data = data, nil
		}
	}
	return data
}

func (s *pageShell) program(words []string, in []byte) []byte {
	s.t.Helper()
	var out bytes.Buffer
	switch words[0] {
	case "millrace":
		var stderr bytes.Buffer
		if code := run(s.t.Context(), words[1:], bytes.NewReader(in), &out, &stderr); code != 0 {
			s.t.Errorf("%s: exit code %d, %s", strings.Join(words, " "), code, stderr.String())
		}
	case "gunzip":
		z, err := gzip.NewReader(bytes.NewReader(s.file(words[2])))
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := io.Copy(&out, z); err != nil {
			s.t.Fatal(err)
		}
	case "jq":
		if len(words) > 3 {
			in = s.file(words[3])
		}
		s.jq(words[2], in, &out)
	case "head":
		n, err := strconv.Atoi(strings.TrimPrefix(words[1], "-"))
		if err != nil {
			s.t.Fatal(err)
		}
		lines := strings.SplitAfter(string(in), "\n")
		out.WriteString(strings.Join(lines[:min(n, len(lines))], ""))
	case "column":
		w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		if _, err := w.Write(in); err != nil || w.Flush() != nil {
			s.t.Fatal(err)
		}
	default:
		s.t.Errorf("a page's command uses %s, which this test does not know", words[0])
	}
	return out.Bytes()
}

func (s *pageShell) file(name string) []byte {
	if data, made := s.files[name]; made {
		return data
	}
	data, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s *pageShell) jq(program string, in []byte, out io.Writer) {
	s.t.Helper()
	query, err := gojq.Parse(program)
	if err != nil {
		s.t.Fatalf("%v in %s", err, program)
	}
	var document any
	if err := json.Unmarshal(in, &document); err != nil {
		s.t.Fatal(err)
	}
	for found := query.RunWithContext(s.t.Context(), document); ; {
		v, more := found.Next()
		if !more {
			return
		}
		switch v := v.(type) {
		case error:
			s.t.Errorf("%v in %s", v, program)
			return
		case string:
			fmt.Fprintln(out, v)
		default:
			text, err := gojq.Marshal(v)
			if err != nil {
				s.t.Fatal(err)
			}
			fmt.Fprintf(out, "%s\n", text)
		}
	}
}

// pageWords parts a block into commands, a command into the stages of its pipe, and these into words.
func pageWords(block string) [][][]string {
	var commands [][][]string
	var stages [][]string
	var words []string
	word, quoted := "", false
	endWord := func() {
		if word != "" {
			words = append(words, word)
		}
		word = ""
	}
	endStage := func() {
		endWord()
		if len(words) > 0 {
			stages = append(stages, words)
		}
		words = nil
	}
	for _, c := range block + "\n" {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
			word += string(c)
		case c == '|':
			endStage()
		case c == '\n' && strings.HasSuffix(word, `\`):
			word = strings.TrimSuffix(word, `\`)
		case c == '\n':
			if endStage(); len(stages) > 0 {
				commands = append(commands, stages)
			}
			stages = nil
		case c == ' ':
			endWord()
		default:
			word += string(c)
		}
	}
	return commands
}

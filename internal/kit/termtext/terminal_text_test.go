package termtext

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile is what has been found in completions and names, and what attackers send.
var hostile = []struct{ name, text, line, block string }{
	{"plain", "A PAR - BUR", "A PAR - BUR", "A PAR - BUR"},
	{"lines", "one\ntwo\r\nthree\tfour", "one two  three four", "one\ntwo\nthree four"},
	{"colours", "\x1b[31mred\x1b[0m", "␛[31mred␛[0m", "␛[31mred␛[0m"},
	{"clipboard", "\x1b]52;c;cm0gLXJm\x07", "␛]52;c;cm0gLXJm␇", "␛]52;c;cm0gLXJm␇"},
	{"link", "\x1b]8;;http://x\x1b\\y", "␛]8;;http://x␛\\y", "␛]8;;http://x␛\\y"},
	{"C1 as a character", "a\u009b2Jb", "a\ufffd2Jb", "a\ufffd2Jb"},
	{"C1 as a byte", "a\x9b2Jb", "a\ufffd2Jb", "a\ufffd2Jb"},
	{"overwrites its line", "safe\rEVIL", "safe EVIL", "safe␍EVIL"},
	{"backspaces", "safe\b\b\b\b", "safe␈␈␈␈", "safe␈␈␈␈"},
	{"next line", "a\u0085b", "a b", "a\ufffdb"},
	{"line separator", "a\u2028b", "a b", "a\nb"},
	{"right to left", "user\u202etxt.exe\u202c", "user\ufffdtxt.exe\ufffd", "user\ufffdtxt.exe\ufffd"},
	{"isolates and marks", "\u2066a\u2069\u200f\u061c", "\ufffda\ufffd\ufffd\ufffd", "\ufffda\ufffd\ufffd\ufffd"},
	{"not seen", "a\u200bb\ufeffc\U000e0041", "a\ufffdb\ufffdc\ufffd", "a\ufffdb\ufffdc\ufffd"},
	{"scripts and emoji", "Zürich 東京 👩\u200d🔬 עברית", "Zürich 東京 👩\u200d🔬 עברית", "Zürich 東京 👩\u200d🔬 עברית"},
	{"broken UTF-8", "a\xff\xc3", "a\ufffd\ufffd", "a\ufffd\ufffd"},
	{"NUL and DEL", "a\x00\x7f", "a␀␡", "a␀␡"},
}

func TestHostileTextIsShown(t *testing.T) {
	t.Parallel()
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Line(tt.text); got != tt.line {
				t.Errorf("Line: %q, want %q", got, tt.line)
			}
			if got := Block(tt.text); got != tt.block {
				t.Errorf("Block: %q, want %q", got, tt.block)
			}
		})
	}
}

func TestFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöüß", 3, "äö…"}, {"äöü", 3, "äöü"}, {"abc", 0, ""}, {"abc", 1, "…"},
		{"東京都", 2, "東…"}} {
		if got := First(tt.text, tt.most); got != tt.want {
			t.Errorf("First(%q, %d) = %q, want %q", tt.text, tt.most, got, tt.want)
		}
	}
}

const combined = "Krako\u0301w" // the accent is a character of its own, and takes no cell

func TestRoomOnTheTerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		most  int
		width int
		cut   string
		fold  [2]string
	}{
		{"abc", 3, 3, "abc", [2]string{"abc", ""}},
		{"abcd", 3, 4, "ab…", [2]string{"abc", "d"}},
		{"Kraków", 6, 6, "Kraków", [2]string{"Kraków", ""}},
		{combined, 6, 6, combined, [2]string{combined, ""}},
		{"東京都", 6, 6, "東京都", [2]string{"東京都", ""}},
		{"東京都", 5, 6, "東京…", [2]string{"東京", "都"}},
		{"東京都", 4, 6, "東…", [2]string{"東京", "都"}},
		{"to be or not", 7, 12, "to be …", [2]string{"to be", "or not"}},
		{"to be or not", 5, 12, "to b…", [2]string{"to be", "or not"}},
		{"ｆｕｌｌ width", 9, 14, "ｆｕｌｌ…", [2]string{"ｆｕｌｌ", "width"}},
	} {
		line, rest := Fold(tt.text, tt.most)
		if Width(tt.text) != tt.width || Cut(tt.text, tt.most) != tt.cut || [2]string{line, rest} != tt.fold {
			t.Errorf("%q in %d: width %d, cut %q, folded %q and %q; want %d, %q, %q", tt.text, tt.most, Width(tt.text),
				Cut(tt.text, tt.most), line, rest, tt.width, tt.cut, tt.fold)
		}
		if padded := Pad(tt.text, 20); Width(padded) != 20 {
			t.Errorf("%q is %d cells wide", padded, Width(padded))
		}
	}
}

// FuzzRoom: whatever is cut, broken or folded has the room that it was given, and loses nothing that it should not.
func FuzzRoom(f *testing.F) {
	for _, h := range hostile {
		f.Add(h.text, 7)
	}
	f.Add("東京都 "+combined, 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = 2 + max(0, most)%80
		text = Line(text)
		if got := Cut(text, most); Width(got) > most {
			t.Fatalf("Cut(%q, %d) = %q takes %d", text, most, got, Width(got))
		}
		if got := strings.Join(Broken(text, most), ""); got != text {
			t.Fatalf("Broken(%q, %d) = %q", text, most, got)
		}
		for rest := text; rest != ""; {
			line, left := Fold(rest, most)
			if Width(line) > most || len(left) >= len(rest) {
				t.Fatalf("Fold(%q, %d) = %q and %q", rest, most, line, left)
			}
			rest = left
		}
	})
}

// FuzzLine: whatever comes, no character is left that a terminal obeys, and a shown text stays as it is.
func FuzzLine(f *testing.F) {
	for _, h := range hostile {
		f.Add(h.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, block := Line(text), Block(text)
		for _, r := range line + strings.ReplaceAll(block, "\n", "") {
			if Obeyed(r) || unicode.IsControl(r) {
				t.Fatalf("%q keeps %U", text, r)
			}
		}
		if !utf8.ValidString(line) || !utf8.ValidString(block) {
			t.Fatalf("%q: %q and %q", text, line, block)
		}
		if Line(line) != line || Block(block) != block {
			t.Fatalf("%q: shown again it is another text", text)
		}
	})
}

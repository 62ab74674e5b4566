// Package tokenizer turns text into tokens and back, deterministically, without a
// model file. It stands in for the tokenizer of a 150k-vocabulary language model: ids 0-255
// are the bytes, then come a few thousand common pieces, and the control tokens have the ids
// that Qwen2.5 gives them. Text is cut by greedy longest match, so every string has exactly
// one encoding and decoding it gives the string back byte for byte.
//
// What it promises is density, not the cuts of any real tokenizer: a Diplomacy order such as
// "A PAR - BUR\n" is 6 to 8 tokens and English prose about 3.5 to 4 characters per token, so
// that token counts, and with them simulated times, have the right size.
//
// Start reading at New and Tokenizer.Encode.
package tokenizer

import (
	_ "embed"
	"slices"
	"strings"
)

// ID is a token id.
type ID = int32

// The control tokens, with the ids of Qwen2.5-Instruct.
const (
	EndOfText ID = 151643 // "<|endoftext|>", also the padding token
	ImStart   ID = 151644 // "<|im_start|>"
	ImEnd     ID = 151645 // "<|im_end|>", the end-of-sequence token
	EOS          = ImEnd
)

// Size is one more than the largest id that exists.
const Size = int(ImEnd) + 1

//go:embed words.txt
var wordList string

var controls = []struct {
	id   ID
	text string
}{
	{EndOfText, "<|endoftext|>"},
	{ImStart, "<|im_start|>"},
	{ImEnd, "<|im_end|>"},
}

// Tokenizer is immutable and safe for concurrent use.
type Tokenizer struct {
	pieces []string // by id, the control tokens excepted
	nodes  []Node
}

// Node is one node of the byte trie over the ordinary vocabulary. Node 0 is the root.
type Node struct {
	Token    ID // the token that ends here, or -1
	labels   []byte
	children []int32
}

// New builds the vocabulary.
func New() *Tokenizer {
	t := &Tokenizer{nodes: []Node{{Token: -1}}}
	for b := range 256 {
		t.add(string([]byte{byte(b)}))
	}
	for _, piece := range commonPieces() {
		t.add(piece)
	}
	return t
}

// add gives piece the next id unless it has one.
func (t *Tokenizer) add(piece string) {
	at := int32(0)
	for i := range len(piece) {
		next, ok := t.Child(at, piece[i])
		if !ok {
			next = t.addChild(at, piece[i])
		}
		at = next
	}
	if t.nodes[at].Token < 0 {
		t.nodes[at].Token = ID(len(t.pieces))
		t.pieces = append(t.pieces, piece)
	}
}

// addChild keeps labels sorted, so that ranges of bytes can be walked in order.
func (t *Tokenizer) addChild(at int32, b byte) int32 {
	id := int32(len(t.nodes))
	t.nodes = append(t.nodes, Node{Token: -1})
	n := &t.nodes[at]
	i, _ := slices.BinarySearch(n.labels, b)
	n.labels, n.children = slices.Insert(n.labels, i, b), slices.Insert(n.children, i, id)
	return id
}

// Ordinary is the number of tokens that are pieces of text: their ids are 0 to Ordinary-1.
func (t *Tokenizer) Ordinary() int { return len(t.pieces) }

// Child is the trie node reached from node at by byte b.
func (t *Tokenizer) Child(at int32, b byte) (int32, bool) {
	n := &t.nodes[at]
	if len(n.labels) == 256 {
		return n.children[b], true
	}
	i, ok := slices.BinarySearch(n.labels, b)
	if !ok {
		return 0, false
	}
	return n.children[i], true
}

// Children calls visit for every child of node at whose byte lies in [lo, hi], in order.
func (t *Tokenizer) Children(at int32, lo, hi byte, visit func(child int32, token ID)) {
	n := &t.nodes[at]
	first, _ := slices.BinarySearch(n.labels, lo)
	for i := first; i < len(n.labels) && n.labels[i] <= hi; i++ {
		visit(n.children[i], t.nodes[n.children[i]].Token)
	}
}

// Encode cuts text into tokens. Control tokens written out in the text become control tokens.
func (t *Tokenizer) Encode(text string) []ID {
	ids := make([]ID, 0, len(text)/3+1)
	for i := 0; i < len(text); {
		if text[i] == '<' {
			if id, size := control(text[i:]); size > 0 {
				ids = append(ids, id)
				i += size
				continue
			}
		}
		id, size := t.longest(text[i:])
		ids = append(ids, id)
		i += size
	}
	return ids
}

func (t *Tokenizer) longest(text string) (ID, int) {
	at, best, size := int32(0), ID(-1), 0
	for i := range len(text) {
		next, ok := t.Child(at, text[i])
		if !ok {
			break
		}
		at = next
		if token := t.nodes[at].Token; token >= 0 {
			best, size = token, i+1
		}
	}
	return best, size
}

func control(text string) (ID, int) {
	for _, c := range controls {
		if strings.HasPrefix(text, c.text) {
			return c.id, len(c.text)
		}
	}
	return 0, 0
}

// Piece is the text of one token; ok is false for an id that does not exist.
func (t *Tokenizer) Piece(id ID) (piece string, ok bool) {
	if id >= 0 && int(id) < len(t.pieces) {
		return t.pieces[id], true
	}
	for _, c := range controls {
		if c.id == id {
			return c.text, true
		}
	}
	return "", false
}

// IsControl reports whether id is a control token.
func IsControl(id ID) bool { return id >= EndOfText && id <= ImEnd }

// Decode joins the tokens' texts. Control tokens are left out when skipControl is set, and
// ids that do not exist always are.
func (t *Tokenizer) Decode(ids []ID, skipControl bool) string {
	var b strings.Builder
	for _, id := range ids {
		if skipControl && IsControl(id) {
			continue
		}
		piece, _ := t.Piece(id)
		b.WriteString(piece)
	}
	return b.String()
}

// commonPieces lists the vocabulary above the bytes: pairs of letters of one case, a space
// with a letter, words with and without their leading space, and runs of layout.
func commonPieces() []string {
	pieces := make([]string, 0, 4096)
	for _, base := range []byte{'A', 'a'} {
		for i := range byte(26) {
			pieces = append(pieces, string([]byte{' ', base + i}))
			for j := range byte(26) {
				pieces = append(pieces, string([]byte{base + i, base + j}))
			}
		}
	}
	pieces = append(pieces, "  ", "    ", "        ", "\n\n", ":\n", ".\n", ",\n", ")\n", " -", " (", " )", " :",
		" [", " {", " \"", "\":", "\",", "\"}", "\"]", "{\"", "[\"", "</", " =", " +", " /", " |", "--", "---", "...", "==",
		"::", "//", " H\n")
	for word := range strings.FieldsSeq(wordList) {
		word, bare := strings.CutPrefix(word, "+") // a piece inside words: no leading space
		if bare {
			pieces = append(pieces, word)
			continue
		}
		title := strings.ToUpper(word[:1]) + word[1:]
		pieces = append(pieces, " "+word, word, " "+title, title)
	}
	return pieces
}

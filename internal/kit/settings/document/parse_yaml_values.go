package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/millrace/millrace/internal/kit/settings"
)

// maxFileBytes and maxDepth bound what is taken for a file that a person wrote.
const (
	maxFileBytes = 64 << 10
	maxDepth     = 32
)

// parse is the one document of a file. The parser is another's and sees bytes from anywhere, so a panic in it is an
// unreadable file and not the end of the process. Of an error it says where it is, if it has a place.
func parse(data []byte) (root ast.Node, at *token.Position, err error) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // Windows editors begin with one.
	if len(data) > maxFileBytes {
		return nil, nil, fmt.Errorf("%d bytes are more than a file of this kind has; the limit is %d", len(data),
			maxFileBytes)
	}
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return nil, nil, errors.New("this is UTF-16; save it as UTF-8")
	}
	if deepest(data) > maxDepth {
		return nil, nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	defer func() {
		if cause := recover(); cause != nil {
			root, err = nil, errors.New("this is not YAML")
		}
	}()
	// Keys given twice are found by valueOf, with all other faults.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, placeOf(err), notYAML(err)
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.DirectiveType:
		case root != nil:
			return nil, nil, errors.New("there are several documents in one file; keep one")
		default:
			root = doc.Body
		}
	}
	if root == nil {
		return nil, nil, errors.New("the file is empty")
	}
	return root, nil, nil
}

func placeOf(err error) *token.Position {
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		return syntax.GetToken().Position
	}
	return nil
}

func notYAML(err error) error {
	var syntax yaml.Error
	if errors.As(err, &syntax) {
		return errors.New("this is not YAML: " + syntax.GetMessage())
	}
	return err
}

// deepest bounds the nesting of brackets and of block sequences on one line, which the parser follows by recursion.
func deepest(data []byte) int {
	depth, most, dashes := 0, 0, 0
	for _, c := range data {
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(depth-1, 0)
		case '\n':
			dashes = 0
		case '-', '?':
			dashes++
			if dashes > 2*maxDepth {
				return dashes
			}
		}
		most = max(most, depth)
	}
	return most
}

// start is where a document begins: a block mapping's own token is the first colon.
func start(root ast.Node) *token.Position {
	switch node := root.(type) {
	case *ast.MappingNode:
		if !node.IsFlowStyle && len(node.Values) > 0 {
			return position(node.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return position(node.Key)
	}
	return position(root)
}

func position(node ast.Node) *token.Position {
	if node == nil || node.GetToken() == nil {
		return nil
	}
	return node.GetToken().Position
}

// valueOf is a node as JSON has it: map[string]any, []any, string, bool, nil, json.Number. It notes the place of every
// key and value. What YAML has and files may not is a fault.
func (d *Document) valueOf(node ast.Node, path string, depth int) any {
	at := position(node)
	d.values[path] = at
	refuse := func(text string) any {
		d.refuse(at, path, "%s", text)
		return settings.Omitted{}
	}
	if depth > maxDepth {
		return refuse(fmt.Sprintf("nested deeper than %d levels", maxDepth))
	}
	switch node := node.(type) {
	case nil, *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return node.Value
	case *ast.LiteralNode:
		return node.Value.Value
	case *ast.StringNode:
		return wordOf(node)
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return numberOf(node)
	case *ast.SequenceNode:
		list := make([]any, len(node.Values))
		for i, item := range node.Values {
			at := fmt.Sprintf("%s[%d]", path, i)
			d.keys[at] = position(item)
			list[i] = d.valueOf(item, at, depth+1)
		}
		return list
	case *ast.MappingNode:
		return d.mapping(node.Values, path, depth)
	case *ast.MappingValueNode:
		return d.mapping([]*ast.MappingValueNode{node}, path, depth)
	case *ast.AliasNode, *ast.AnchorNode:
		return refuse("anchors and aliases are not taken; write the value out")
	case *ast.TagNode:
		return refuse("tags are not taken; write the value alone")
	}
	return refuse("want a value that JSON has, not this")
}

func (d *Document) mapping(pairs []*ast.MappingValueNode, path string, depth int) map[string]any {
	object := map[string]any{}
	for _, pair := range pairs {
		at := position(pair.Key)
		text, plain := pair.Key.(*ast.StringNode)
		_, merge := pair.Key.(*ast.MergeKeyNode)
		switch {
		case merge:
			d.refuse(at, path, "merge keys are not taken; write the values out")
			continue
		case !plain || text.Value == "":
			d.refuse(at, path, "a key must be a plain word, not %q", pair.Key.GetToken().Value)
			continue
		}
		key := settings.Join(path, text.Value)
		if _, again := object[text.Value]; again {
			d.refuse(at, key, "given twice; keep one (the first is in line %d)", d.keys[key].Line)
			continue
		}
		d.keys[key] = at
		object[text.Value] = d.valueOf(pair.Value, key, depth+1)
	}
	return object
}

// wordOf is a text. One without quotes may be a number to JSON and not to the parser, such as 1e-07.
func wordOf(node *ast.StringNode) any {
	quoted := node.Token.Type == token.SingleQuoteType || node.Token.Type == token.DoubleQuoteType
	if _, err := strconv.ParseFloat(node.Value, 64); !quoted && err == nil && json.Valid([]byte(node.Value)) {
		return json.Number(node.Value)
	}
	return node.Value
}

// numberOf is a number as the file has it, if JSON could have it so, too: 4.0 stays no count, and 0x10 is 16.
func numberOf(node ast.Node) json.Number {
	text := node.GetToken().Value
	if json.Valid([]byte(strings.TrimPrefix(text, "+"))) {
		return json.Number(strings.TrimPrefix(text, "+"))
	}
	switch node := node.(type) {
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(node.Value)) // an int64 or a uint64
	case *ast.FloatNode:
		return json.Number(strconv.FormatFloat(node.Value, 'e', -1, 64))
	}
	return json.Number(text)
}

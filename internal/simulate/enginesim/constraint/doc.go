// Package constraint restricts generated text to a regular language, token by token.
//
// A regular expression, a list of choices, or an EBNF grammar becomes a tree of package regexp/syntax, the tree a byte
// automaton (build_byte_nfa_from_expression.go), and the automaton is determinised only where sampling walks
// (lazily_determinised_token_automaton.go): from each state visited, the vocabulary's trie is walked along the bytes
// the state allows, which gives the tokens that may come next. States from which the language cannot be finished do not
// exist, so a sampler that follows Tokens can always end.
//
// Sampling itself, and the meaning of the end-of-sequence token, belong to the caller. Start reading at Compiler and
// Automaton.Tokens.
package constraint

package main

import (
	"sort"
	"unicode/utf8"
)

// text is a byte string that crosses JSON unchanged: a byte that is not UTF-8 becomes the lone
// surrogate U+DC80 + byte - 0x80, the escape Python calls "surrogateescape".
type text string

const hexadecimal = "0123456789abcdef"

func (t text) MarshalJSON() ([]byte, error) {
	encoded := make([]byte, 0, len(t)+2)
	encoded = append(encoded, '"')
	for rest := string(t); len(rest) > 0; {
		symbol, size := utf8.DecodeRuneInString(rest)
		switch {
		case symbol == utf8.RuneError && size == 1:
			encoded = append(encoded, `\udc`...)
			encoded = append(encoded, hexadecimal[rest[0]>>4], hexadecimal[rest[0]&15])
		case symbol == '"' || symbol == '\\':
			encoded = append(encoded, '\\', rest[0])
		case symbol < 0x20 || symbol == 0x7f:
			encoded = append(encoded, `\u00`...)
			encoded = append(encoded, hexadecimal[rest[0]>>4], hexadecimal[rest[0]&15])
		default:
			encoded = append(encoded, rest[:size]...)
		}
		rest = rest[size:]
	}
	return append(encoded, '"'), nil
}

func texts(values []string) []text {
	converted := make([]text, len(values))
	for i, value := range values {
		converted[i] = text(value)
	}
	return converted
}

// named is one entry of a map of lists; JSON objects would need their keys to be UTF-8.
type named struct {
	Name   text   `json:"name"`
	Values []text `json:"values"`
}

func entries(values map[string][]string) []named {
	converted := make([]named, 0, len(values))
	for name, list := range values {
		converted = append(converted, named{Name: text(name), Values: texts(list)})
	}
	sort.Slice(converted, func(i, j int) bool { return converted[i].Name < converted[j].Name })
	return converted
}

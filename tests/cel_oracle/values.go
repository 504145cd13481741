package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"sort"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// encode writes a value with its type: ["int","1"], ["list",[...]], ["map",[[key,value],...]].
func encode(value ref.Val) any {
	switch v := value.(type) {
	case types.Bool:
		return []any{"bool", bool(v)}
	case types.Int:
		return []any{"int", strconv.FormatInt(int64(v), 10)}
	case types.Uint:
		return []any{"uint", strconv.FormatUint(uint64(v), 10)}
	case types.Double:
		return []any{"double", number(float64(v))}
	case types.String:
		return []any{"string", string(v)}
	case types.Bytes:
		return []any{"bytes", base64.StdEncoding.EncodeToString(v)}
	case types.Null:
		return []any{"null"}
	case types.Duration:
		return []any{"duration", strconv.FormatInt(v.Duration.Nanoseconds(), 10)}
	case types.Timestamp:
		return []any{"timestamp", v.Time.UTC().Format(time.RFC3339Nano)}
	case *types.Type:
		return []any{"type", v.TypeName()}
	case *types.Optional:
		if !v.HasValue() {
			return []any{"optional"}
		}
		return []any{"optional", encode(v.GetValue())}
	case apiservercel.IP:
		return []any{"ip", v.Addr.String()}
	case apiservercel.CIDR:
		return []any{"cidr", v.Prefix.String()}
	case apiservercel.URL:
		return []any{"url", v.URL.String()}
	case apiservercel.Quantity:
		return []any{"quantity", exact(v)}
	case *apiservercel.Quantity:
		return []any{"quantity", exact(*v)}
	case apiservercel.Semver:
		return []any{"semver", v.Version.String()}
	case apiservercel.Format:
		return []any{"format", v.Name}
	case *apiservercel.Format:
		return []any{"format", v.Name}
	case traits.Mapper:
		return encodeMap(v)
	case traits.Lister:
		return encodeList(v)
	}
	return []any{"other", fmt.Sprintf("%T", value)}
}

func encodeList(list traits.Lister) any {
	elements := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		elements = append(elements, encode(it.Next()))
	}
	return []any{"list", elements}
}

func encodeMap(mapper traits.Mapper) any {
	type entry struct {
		text string
		pair []any
	}
	entries := []entry{}
	for it := mapper.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		encoded := encode(key)
		text, _ := json.Marshal(encoded)
		entries = append(entries, entry{string(text), []any{encoded, encode(mapper.Get(key))}})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].text < entries[j].text })
	pairs := make([]any, len(entries))
	for i, e := range entries {
		pairs[i] = e.pair
	}
	return []any{"map", pairs}
}

// exact writes a quantity as a number without zeros at its end and a power of ten.
func exact(quantity apiservercel.Quantity) string {
	copied := quantity.Quantity.DeepCopy()
	decimal := copied.AsDec()
	unscaled, scale := decimal.UnscaledBig(), -int64(decimal.Scale())
	if unscaled.Sign() == 0 {
		return "0"
	}
	value, ten, rest := new(big.Int).Set(unscaled), big.NewInt(10), new(big.Int)
	for {
		quotient, _ := new(big.Int).QuoRem(value, ten, rest)
		if rest.Sign() != 0 {
			return fmt.Sprintf("%se%d", value, scale)
		}
		value, scale = quotient, scale+1
	}
}

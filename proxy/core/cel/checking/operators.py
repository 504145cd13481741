"""Declared overloads of operators and of functions that macros expand to.

Each line: function, overload, `m` for a member function, argument types, result type;
`pb.` stands for `google.protobuf.`, `opt` for `optional_type`.
"""

OPERATORS = """\
!_ | logical_not | g | bool | bool
-_ | negate_double | g | double | double
-_ | negate_int64 | g | int | int
@in | in_list | g | <A>;list(<A>) | bool
@in | in_map | g | <A>;map(<A>, <B>) | bool
@not_strictly_false | not_strictly_false | g | bool | bool
@sortByAssociatedKeys | list_int_sortByAssociatedKeys | m | list(<T>);list(int) | list(<T>)
@sortByAssociatedKeys | list_uint_sortByAssociatedKeys | m | list(<T>);list(uint) | list(<T>)
@sortByAssociatedKeys | list_double_sortByAssociatedKeys | m | list(<T>);list(double) | list(<T>)
@sortByAssociatedKeys | list_bool_sortByAssociatedKeys | m | list(<T>);list(bool) | list(<T>)
@sortByAssociatedKeys | list_pb.Duration_sortByKeys | m | list(<T>);list(pb.Duration) | list(<T>)
@sortByAssociatedKeys | list_pb.Timestamp_sortByKeys | m | list(<T>);list(pb.Timestamp) | list(<T>)
@sortByAssociatedKeys | list_string_sortByAssociatedKeys | m | list(<T>);list(string) | list(<T>)
@sortByAssociatedKeys | list_bytes_sortByAssociatedKeys | m | list(<T>);list(bytes) | list(<T>)
_!=_ | not_equals | g | <A>;<A> | bool
_%_ | modulo_int64 | g | int;int | int
_%_ | modulo_uint64 | g | uint;uint | uint
_&&_ | logical_and | g | bool;bool | bool
_*_ | multiply_double | g | double;double | double
_*_ | multiply_int64 | g | int;int | int
_*_ | multiply_uint64 | g | uint;uint | uint
_+_ | add_bytes | g | bytes;bytes | bytes
_+_ | add_double | g | double;double | double
_+_ | add_duration_duration | g | pb.Duration;pb.Duration | pb.Duration
_+_ | add_duration_timestamp | g | pb.Duration;pb.Timestamp | pb.Timestamp
_+_ | add_timestamp_duration | g | pb.Timestamp;pb.Duration | pb.Timestamp
_+_ | add_int64 | g | int;int | int
_+_ | add_list | g | list(<A>);list(<A>) | list(<A>)
_+_ | add_string | g | string;string | string
_+_ | add_uint64 | g | uint;uint | uint
_-_ | subtract_double | g | double;double | double
_-_ | subtract_duration_duration | g | pb.Duration;pb.Duration | pb.Duration
_-_ | subtract_int64 | g | int;int | int
_-_ | subtract_timestamp_duration | g | pb.Timestamp;pb.Duration | pb.Timestamp
_-_ | subtract_timestamp_timestamp | g | pb.Timestamp;pb.Timestamp | pb.Duration
_-_ | subtract_uint64 | g | uint;uint | uint
_/_ | divide_double | g | double;double | double
_/_ | divide_int64 | g | int;int | int
_/_ | divide_uint64 | g | uint;uint | uint
_<=_ | less_equals_bool | g | bool;bool | bool
_<=_ | less_equals_int64 | g | int;int | bool
_<=_ | less_equals_int64_double | g | int;double | bool
_<=_ | less_equals_int64_uint64 | g | int;uint | bool
_<=_ | less_equals_uint64 | g | uint;uint | bool
_<=_ | less_equals_uint64_double | g | uint;double | bool
_<=_ | less_equals_uint64_int64 | g | uint;int | bool
_<=_ | less_equals_double | g | double;double | bool
_<=_ | less_equals_double_int64 | g | double;int | bool
_<=_ | less_equals_double_uint64 | g | double;uint | bool
_<=_ | less_equals_string | g | string;string | bool
_<=_ | less_equals_bytes | g | bytes;bytes | bool
_<=_ | less_equals_timestamp | g | pb.Timestamp;pb.Timestamp | bool
_<=_ | less_equals_duration | g | pb.Duration;pb.Duration | bool
_<_ | less_bool | g | bool;bool | bool
_<_ | less_int64 | g | int;int | bool
_<_ | less_int64_double | g | int;double | bool
_<_ | less_int64_uint64 | g | int;uint | bool
_<_ | less_uint64 | g | uint;uint | bool
_<_ | less_uint64_double | g | uint;double | bool
_<_ | less_uint64_int64 | g | uint;int | bool
_<_ | less_double | g | double;double | bool
_<_ | less_double_int64 | g | double;int | bool
_<_ | less_double_uint64 | g | double;uint | bool
_<_ | less_string | g | string;string | bool
_<_ | less_bytes | g | bytes;bytes | bool
_<_ | less_timestamp | g | pb.Timestamp;pb.Timestamp | bool
_<_ | less_duration | g | pb.Duration;pb.Duration | bool
_==_ | equals | g | <A>;<A> | bool
_>=_ | greater_equals_bool | g | bool;bool | bool
_>=_ | greater_equals_int64 | g | int;int | bool
_>=_ | greater_equals_int64_double | g | int;double | bool
_>=_ | greater_equals_int64_uint64 | g | int;uint | bool
_>=_ | greater_equals_uint64 | g | uint;uint | bool
_>=_ | greater_equals_uint64_double | g | uint;double | bool
_>=_ | greater_equals_uint64_int64 | g | uint;int | bool
_>=_ | greater_equals_double | g | double;double | bool
_>=_ | greater_equals_double_int64 | g | double;int | bool
_>=_ | greater_equals_double_uint64 | g | double;uint | bool
_>=_ | greater_equals_string | g | string;string | bool
_>=_ | greater_equals_bytes | g | bytes;bytes | bool
_>=_ | greater_equals_timestamp | g | pb.Timestamp;pb.Timestamp | bool
_>=_ | greater_equals_duration | g | pb.Duration;pb.Duration | bool
_>_ | greater_bool | g | bool;bool | bool
_>_ | greater_int64 | g | int;int | bool
_>_ | greater_int64_double | g | int;double | bool
_>_ | greater_int64_uint64 | g | int;uint | bool
_>_ | greater_uint64 | g | uint;uint | bool
_>_ | greater_uint64_double | g | uint;double | bool
_>_ | greater_uint64_int64 | g | uint;int | bool
_>_ | greater_double | g | double;double | bool
_>_ | greater_double_int64 | g | double;int | bool
_>_ | greater_double_uint64 | g | double;uint | bool
_>_ | greater_string | g | string;string | bool
_>_ | greater_bytes | g | bytes;bytes | bool
_>_ | greater_timestamp | g | pb.Timestamp;pb.Timestamp | bool
_>_ | greater_duration | g | pb.Duration;pb.Duration | bool
_?._ | select_optional_field | g | dyn;string | opt(<V>)
_?_:_ | conditional | g | bool;<A>;<A> | <A>
_[?_] | list_optindex_optional_int | g | list(<V>);int | opt(<V>)
_[?_] | optional_list_optindex_optional_int | g | opt(list(<V>));int | opt(<V>)
_[?_] | map_optindex_optional_value | g | map(<K>, <V>);<K> | opt(<V>)
_[?_] | optional_map_optindex_optional_value | g | opt(map(<K>, <V>));<K> | opt(<V>)
_[_] | index_list | g | list(<A>);int | <A>
_[_] | index_map | g | map(<A>, <B>);<A> | <B>
_[_] | optional_list_index_int | g | opt(list(<V>));int | opt(<V>)
_[_] | optional_map_index_value | g | opt(map(<K>, <V>));<K> | opt(<V>)
_||_ | logical_or | g | bool;bool | bool
cel.@mapInsert | @mapInsert_map_key_value | g | map(<K>, <V>);<K>;<V> | map(<K>, <V>)
cel.@mapInsert | @mapInsert_map_map | g | map(<K>, <V>);map(<K>, <V>) | map(<K>, <V>)
"""

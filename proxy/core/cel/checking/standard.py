"""Declared overloads of the standard conversions and functions.

Each line: function, overload, `m` for a member function, argument types, result type; `pb.` stands
for `google.protobuf.`.
"""

STANDARD = """\
bool | bool_to_bool | g | bool | bool
bool | string_to_bool | g | string | bool
bytes | bytes_to_bytes | g | bytes | bytes
bytes | string_to_bytes | g | string | bytes
contains | contains_string | m | string;string | bool
double | double_to_double | g | double | double
double | int64_to_double | g | int | double
double | string_to_double | g | string | double
double | uint64_to_double | g | uint | double
duration | duration_to_duration | g | pb.Duration | pb.Duration
duration | string_to_duration | g | string | pb.Duration
dyn | to_dyn | g | <A> | dyn
endsWith | ends_with_string | m | string;string | bool
getDate | timestamp_to_day_of_month_1_based | m | pb.Timestamp | int
getDate | timestamp_to_day_of_month_1_based_with_tz | m | pb.Timestamp;string | int
getDayOfMonth | timestamp_to_day_of_month | m | pb.Timestamp | int
getDayOfMonth | timestamp_to_day_of_month_with_tz | m | pb.Timestamp;string | int
getDayOfWeek | timestamp_to_day_of_week | m | pb.Timestamp | int
getDayOfWeek | timestamp_to_day_of_week_with_tz | m | pb.Timestamp;string | int
getDayOfYear | timestamp_to_day_of_year | m | pb.Timestamp | int
getDayOfYear | timestamp_to_day_of_year_with_tz | m | pb.Timestamp;string | int
getFullYear | timestamp_to_year | m | pb.Timestamp | int
getFullYear | timestamp_to_year_with_tz | m | pb.Timestamp;string | int
getHours | timestamp_to_hours | m | pb.Timestamp | int
getHours | timestamp_to_hours_with_tz | m | pb.Timestamp;string | int
getHours | duration_to_hours | m | pb.Duration | int
getMilliseconds | timestamp_to_milliseconds | m | pb.Timestamp | int
getMilliseconds | timestamp_to_milliseconds_with_tz | m | pb.Timestamp;string | int
getMilliseconds | duration_to_milliseconds | m | pb.Duration | int
getMinutes | timestamp_to_minutes | m | pb.Timestamp | int
getMinutes | timestamp_to_minutes_with_tz | m | pb.Timestamp;string | int
getMinutes | duration_to_minutes | m | pb.Duration | int
getMonth | timestamp_to_month | m | pb.Timestamp | int
getMonth | timestamp_to_month_with_tz | m | pb.Timestamp;string | int
getSeconds | timestamp_to_seconds | m | pb.Timestamp | int
getSeconds | timestamp_to_seconds_tz | m | pb.Timestamp;string | int
getSeconds | duration_to_seconds | m | pb.Duration | int
int | int64_to_int64 | g | int | int
int | double_to_int64 | g | double | int
int | duration_to_int64 | g | pb.Duration | int
int | string_to_int64 | g | string | int
int | timestamp_to_int64 | g | pb.Timestamp | int
int | uint64_to_int64 | g | uint | int
matches | matches | g | string;string | bool
matches | matches_string | m | string;string | bool
size | size_bytes | g | bytes | int
size | bytes_size | m | bytes | int
size | size_list | g | list(<A>) | int
size | list_size | m | list(<A>) | int
size | size_map | g | map(<A>, <B>) | int
size | map_size | m | map(<A>, <B>) | int
size | size_string | g | string | int
size | string_size | m | string | int
startsWith | starts_with_string | m | string;string | bool
string | string_to_string | g | string | string
string | bool_to_string | g | bool | string
string | bytes_to_string | g | bytes | string
string | double_to_string | g | double | string
string | duration_to_string | g | pb.Duration | string
string | int64_to_string | g | int | string
string | timestamp_to_string | g | pb.Timestamp | string
string | uint64_to_string | g | uint | string
string | ip_to_string | g | net.IP | string
string | cidr_to_string | g | net.CIDR | string
timestamp | timestamp_to_timestamp | g | pb.Timestamp | pb.Timestamp
timestamp | int64_to_timestamp | g | int | pb.Timestamp
timestamp | string_to_timestamp | g | string | pb.Timestamp
type | type | g | <A> | type(<A>)
uint | uint64_to_uint64 | g | uint | uint
uint | double_to_uint64 | g | double | uint
uint | int64_to_uint64 | g | int | uint
uint | string_to_uint64 | g | string | uint
"""

"""Declared overloads of the libraries.

Each line: function, overload, `m` for a member function, argument types, result type. `pb.` stands
for `google.protobuf.`, `authz.` for `kubernetes.authorization.`, of which no variable has a type.
"""

LIBRARIES = """\
add | quantity_add | m | kubernetes.Quantity;kubernetes.Quantity | kubernetes.Quantity
add | quantity_add_int | m | kubernetes.Quantity;int | kubernetes.Quantity
allowed | decision_allowed | m | authz.Decision | bool
asApproximateFloat | quantity_get_float | m | kubernetes.Quantity | double
asInteger | quantity_get_int | m | kubernetes.Quantity | int
charAt | string_char_at_int | m | string;int | string
check | pathcheck_check | m | authz.PathCheck;string | authz.Decision
check | resourcecheck_check | m | authz.ResourceCheck;string | authz.Decision
cidr | string_to_cidr | g | string | net.CIDR
compareTo | quantity_compare_to | m | kubernetes.Quantity;kubernetes.Quantity | int
compareTo | semver_compare_to | m | kubernetes.Semver;kubernetes.Semver | int
containsCIDR | cidr_contains_cidr_string | m | net.CIDR;string | bool
containsCIDR | cidr_contains_cidr | m | net.CIDR;net.CIDR | bool
containsIP | cidr_contains_ip_string | m | net.CIDR;string | bool
containsIP | cidr_contains_ip_ip | m | net.CIDR;net.IP | bool
distinct | list_distinct | m | list(<T>) | list(<T>)
error | decision_error | m | authz.Decision | string
errored | decision_errored | m | authz.Decision | bool
family | ip_family | m | net.IP | int
fieldSelector | authorizer_fieldselector | m | authz.ResourceCheck;string | authz.ResourceCheck
find | string_find_string | m | string;string | string
findAll | string_find_all_string | m | string;string | list(string)
findAll | string_find_all_string_int | m | string;string;int | list(string)
first | list_first | m | list(<V>) | optional_type(<V>)
flatten | list_flatten | m | list(list(<T>)) | list(<T>)
flatten | list_flatten_int | m | list(dyn);int | list(dyn)
format | string_format | m | string;list(dyn) | string
format.byte | format.byte | g |  | kubernetes.NamedFormat
format.date | format.date | g |  | kubernetes.NamedFormat
format.datetime | format.datetime | g |  | kubernetes.NamedFormat
format.dns1035Label | format.dns1035Label | g |  | kubernetes.NamedFormat
format.dns1035LabelPrefix | format.dns1035LabelPrefix | g |  | kubernetes.NamedFormat
format.dns1123Label | format.dns1123Label | g |  | kubernetes.NamedFormat
format.dns1123LabelPrefix | format.dns1123LabelPrefix | g |  | kubernetes.NamedFormat
format.dns1123Subdomain | format.dns1123Subdomain | g |  | kubernetes.NamedFormat
format.dns1123SubdomainPrefix | format.dns1123SubdomainPrefix | g |  | kubernetes.NamedFormat
format.labelValue | format.labelValue | g |  | kubernetes.NamedFormat
format.named | format-named | g | string | optional_type(kubernetes.NamedFormat)
format.qualifiedName | format.qualifiedName | g |  | kubernetes.NamedFormat
format.uri | format.uri | g |  | kubernetes.NamedFormat
format.uuid | format.uuid | g |  | kubernetes.NamedFormat
getEscapedPath | url_get_escaped_path | m | kubernetes.URL | string
getHost | url_get_host | m | kubernetes.URL | string
getHostname | url_get_hostname | m | kubernetes.URL | string
getPort | url_get_port | m | kubernetes.URL | string
getQuery | url_get_query | m | kubernetes.URL | map(string, list(string))
getScheme | url_get_scheme | m | kubernetes.URL | string
group | authorizer_group | m | authz.Authorizer;string | authz.GroupCheck
hasValue | optional_hasValue | m | optional_type(<V>) | bool
includes | list_includes_dyn_dyn | m | dyn;dyn | bool
indexOf | string_index_of_string | m | string;string | int
indexOf | string_index_of_string_int | m | string;string;int | int
indexOf | list_a_index_of_int | m | list(<A>);<A> | int
ip | string_to_ip | g | string | net.IP
ip | cidr_ip | m | net.CIDR | net.IP
ip.isCanonical | ip_is_canonical | g | string | bool
isCIDR | is_cidr | g | string | bool
isGlobalUnicast | ip_is_global_unicast | m | net.IP | bool
isGreaterThan | quantity_is_greater_than | m | kubernetes.Quantity;kubernetes.Quantity | bool
isGreaterThan | semver_is_greater_than | m | kubernetes.Semver;kubernetes.Semver | bool
isIP | is_ip | g | string | bool
isInteger | quantity_is_integer | m | kubernetes.Quantity | bool
isLessThan | quantity_is_less_than | m | kubernetes.Quantity;kubernetes.Quantity | bool
isLessThan | semver_is_less_than | m | kubernetes.Semver;kubernetes.Semver | bool
isLinkLocalMulticast | ip_is_link_local_multicast | m | net.IP | bool
isLinkLocalUnicast | ip_is_link_local_unicast | m | net.IP | bool
isLoopback | ip_is_loopback | m | net.IP | bool
isQuantity | is_quantity_string | g | string | bool
isSemver | is_semver_string | g | string | bool
isSemver | is_semver_string_bool | g | string;bool | bool
isSorted | list_int_is_sorted_bool | m | list(int) | bool
isSorted | list_uint_is_sorted_bool | m | list(uint) | bool
isSorted | list_double_is_sorted_bool | m | list(double) | bool
isSorted | list_bool_is_sorted_bool | m | list(bool) | bool
isSorted | list_duration_is_sorted_bool | m | list(pb.Duration) | bool
isSorted | list_timestamp_is_sorted_bool | m | list(pb.Timestamp) | bool
isSorted | list_string_is_sorted_bool | m | list(string) | bool
isSorted | list_bytes_is_sorted_bool | m | list(bytes) | bool
isURL | is_url_string | g | string | bool
isUnspecified | ip_is_unspecified | m | net.IP | bool
join | list_join | m | list(string) | string
join | list_join_string | m | list(string);string | string
labelSelector | authorizer_labelselector | m | authz.ResourceCheck;string | authz.ResourceCheck
last | list_last | m | list(<V>) | optional_type(<V>)
lastIndexOf | string_last_index_of_string | m | string;string | int
lastIndexOf | string_last_index_of_string_int | m | string;string;int | int
lastIndexOf | list_a_last_index_of_int | m | list(<A>);<A> | int
lists.range | lists_range | g | int | list(int)
lowerAscii | string_lower_ascii | m | string | string
major | semver_major | m | kubernetes.Semver | int
masked | cidr_masked | m | net.CIDR | net.CIDR
max | list_int_max_int | m | list(int) | int
max | list_uint_max_uint | m | list(uint) | uint
max | list_double_max_double | m | list(double) | double
max | list_bool_max_bool | m | list(bool) | bool
max | list_duration_max_duration | m | list(pb.Duration) | pb.Duration
max | list_timestamp_max_timestamp | m | list(pb.Timestamp) | pb.Timestamp
max | list_string_max_string | m | list(string) | string
max | list_bytes_max_bytes | m | list(bytes) | bytes
min | list_int_min_int | m | list(int) | int
min | list_uint_min_uint | m | list(uint) | uint
min | list_double_min_double | m | list(double) | double
min | list_bool_min_bool | m | list(bool) | bool
min | list_duration_min_duration | m | list(pb.Duration) | pb.Duration
min | list_timestamp_min_timestamp | m | list(pb.Timestamp) | pb.Timestamp
min | list_string_min_string | m | list(string) | string
min | list_bytes_min_bytes | m | list(bytes) | bytes
minor | semver_minor | m | kubernetes.Semver | int
name | resourcecheck_name | m | authz.ResourceCheck;string | authz.ResourceCheck
namespace | resourcecheck_namespace | m | authz.ResourceCheck;string | authz.ResourceCheck
optional.none | optional_none | g |  | optional_type(<V>)
optional.of | optional_of | g | <V> | optional_type(<V>)
optional.ofNonZeroValue | optional_ofNonZeroValue | g | <V> | optional_type(<V>)
optional.unwrap | optional_unwrap | g | list(optional_type(<V>)) | list(<V>)
or | optional_or_optional | m | optional_type(<V>);optional_type(<V>) | optional_type(<V>)
orValue | optional_orValue_value | m | optional_type(<V>);<V> | <V>
patch | semver_patch | m | kubernetes.Semver | int
path | authorizer_path | m | authz.Authorizer;string | authz.PathCheck
prefixLength | cidr_prefix_length | m | net.CIDR | int
quantity | string_to_quantity | g | string | kubernetes.Quantity
reason | decision_reason | m | authz.Decision | string
replace | string_replace_string_string | m | string;string;string | string
replace | string_replace_string_string_int | m | string;string;string;int | string
resource | groupcheck_resource | m | authz.GroupCheck;string | authz.ResourceCheck
reverse | list_reverse | m | list(<T>) | list(<T>)
semver | string_to_semver | g | string | kubernetes.Semver
semver | string_bool_to_semver | g | string;bool | kubernetes.Semver
serviceAccount | authorizer_serviceaccount | m | authz.Authorizer;string;string | authz.Authorizer
sets.contains | list_sets_contains_list | g | list(<T>);list(<T>) | bool
sets.equivalent | list_sets_equivalent_list | g | list(<T>);list(<T>) | bool
sets.intersects | list_sets_intersects_list | g | list(<T>);list(<T>) | bool
sign | quantity_sign | g | kubernetes.Quantity | int
slice | list_slice | m | list(<T>);int;int | list(<T>)
sort | list_int_sort | m | list(int) | list(int)
sort | list_uint_sort | m | list(uint) | list(uint)
sort | list_double_sort | m | list(double) | list(double)
sort | list_bool_sort | m | list(bool) | list(bool)
sort | list_pb.Duration_sort | m | list(pb.Duration) | list(pb.Duration)
sort | list_pb.Timestamp_sort | m | list(pb.Timestamp) | list(pb.Timestamp)
sort | list_string_sort | m | list(string) | list(string)
sort | list_bytes_sort | m | list(bytes) | list(bytes)
split | string_split_string | m | string;string | list(string)
split | string_split_string_int | m | string;string;int | list(string)
strings.quote | strings_quote | g | string | string
sub | quantity_sub | m | kubernetes.Quantity;kubernetes.Quantity | kubernetes.Quantity
sub | quantity_sub_int | m | kubernetes.Quantity;int | kubernetes.Quantity
subresource | resourcecheck_subresource | m | authz.ResourceCheck;string | authz.ResourceCheck
substring | string_substring_int | m | string;int | string
substring | string_substring_int_int | m | string;int;int | string
sum | list_int_sum_int | m | list(int) | int
sum | list_uint_sum_uint | m | list(uint) | uint
sum | list_double_sum_double | m | list(double) | double
sum | list_duration_sum_duration | m | list(pb.Duration) | pb.Duration
trim | string_trim | m | string | string
unwrapOpt | optional_unwrapOpt | m | list(optional_type(<V>)) | list(<V>)
upperAscii | string_upper_ascii | m | string | string
url | string_to_url | g | string | kubernetes.URL
validate | format-validate | m | kubernetes.NamedFormat;string | optional_type(list(string))
value | optional_value | m | optional_type(<V>) | <V>
"""

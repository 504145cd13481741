"""Random expressions by type, mostly valid, over objects shaped like those of Kubernetes."""

from collections.abc import Callable
from random import Random

_NAMES = ("a", "b", "name", "app", "x-y", "kube", "")
_TEXTS = (
    "",
    "a",
    "abc",
    "dev",
    "app.kubernetes.io/name",
    "Hello World",
    "héllo",
    "日本語",
    "10.0.0.1",
    "10.0.0.0/8",
    "::1",
    "fe80::1",
    "2001:db8::/32",
    "1.2.3",
    "v1.2",
    "1Gi",
    "100m",
    "1.5",
    "-3",
    "2024-02-29T12:30:45Z",
    "1h30m",
    "https://example.com:80/a%20b?x=1&x=2",
    "/path",
    "true",
    " trim me ",
    "a,b,,c",
    "A-Z_0",
    '"quoted"\\',
    "line\nbreak",
    "0",
    "42",
    "k=v",
    "default",
)
_PATTERNS = ("a", "^a.*$", "[a-z]+", "b|c", "(x)?", "\\\\d+", "é", "", "(", "a{2}")
_ZONES = ("UTC", "+01:00", "-08:30", "Europe/Berlin", "America/New_York", "", "Nowhere/Land", "x:1")
_INTS = ("0", "1", "2", "3", "-1", "7", "100", "-5", "9223372036854775807", "-9223372036854775808")
_UINTS = ("0u", "1u", "2u", "18446744073709551615u", "7u")
_DOUBLES = ("0.0", "1.0", "-1.5", "2.5", "1e10", "3.14", "1e-7", "-0.0", "1e300")
_DURATIONS = ('"1h"', '"90s"', '"-1.5m"', '"0s"', '"2562047h"', '"1ns"')
_TIMESTAMPS = (
    '"2024-02-29T12:30:45Z"',
    '"0001-01-01T00:00:00Z"',
    '"9999-12-31T23:59:59.999Z"',
    '"2023-12-31T23:59:59.123456789+05:30"',
)
_QUANTITIES = ('"1"', '"1Ki"', '"1.5Gi"', '"100m"', '"1e3"', '"0"', '"-5M"', '"0.1n"', '"12E"')
_SEMVERS = ('"1.2.3"', '"1.2.3-alpha.1"', '"0.0.0"', '"1.2.3+build"', '"2.0.0"')
_URLS = ('"https://example.com:80/a%20b?x=1&x=2"', '"/path?q"', '"http://[::1]:8080/"', '"a:b"')
_ADDRESSES = ('"10.0.0.1"', '"::1"', '"fe80::1"', '"224.0.0.1"', '"8.8.8.8"', '"2001:db8::1"')
_RANGES = ('"10.0.0.0/8"', '"10.1.2.3/16"', '"::/0"', '"2001:db8::/32"')

# Fields of `object` that often have the type.
_PATHS: dict[str, tuple[str, ...]] = {
    "bool": ("object.spec.enabled", "object.spec.paused", "oldObject.spec.enabled"),
    "int": (
        "object.spec.replicas",
        "object.spec.port",
        "object.metadata.generation",
        "oldObject.spec.replicas",
    ),
    "double": ("object.spec.ratio",),
    "string": (
        "object.metadata.name",
        "object.metadata.namespace",
        "object.spec.className",
        "request.userInfo.username",
        "request.verb",
        "object.metadata.labels.app",
        "object.metadata.labels['x-y']",
        "operation",
        "impersonatedRequest.resource",
    ),
    "list_string": ("object.spec.args", "request.userInfo.groups", "object.metadata.finalizers"),
    "list_int": ("object.spec.ports",),
    "list_dyn": ("object.spec.containers", "object.spec.mixed"),
    "map": ("object.metadata.labels", "object.metadata.annotations", "object.spec", "object"),
    "dyn": (
        "object",
        "object.spec",
        "object.metadata",
        "object.missing",
        "object.spec.nothing",
        "oldObject",
        "options",
        "object.spec.mixed",
        "object.spec.replicas",
        "object.kind",
        "namespaceObject",
        "object.spec.containers[0]",
        "object.spec.mixed[1]",
    ),
}
_VARIABLE_TYPES = ("dyn", "dyn", "string", "int")


class ExpressionGenerator:
    """Makes one expression after the other from a source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._depth = 0
        # Names of variables in scope with their types.
        self._scope: list[tuple[str, str]] = []

    def expression(self) -> str:
        """Return an expression, of type bool more often than not."""
        self._scope = []
        wanted = "bool" if self._random.random() < 0.6 else self._random.choice(_TYPES)
        return self.of(wanted, self._random.choice((1, 2, 2, 3, 3, 4)))

    def of(self, wanted: str, depth: int) -> str:
        """Return an expression of a type; now and then of another one."""
        roll = self._random.random()
        if roll < 0.02:
            wanted = self._random.choice(_TYPES)
        elif roll < 0.04:
            return f"dyn({self.of(self._random.choice(_TYPES), max(depth - 1, 0))})"
        names = [name for name, kind in self._scope if kind in (wanted, "dyn")]
        if names and self._random.random() < 0.5:
            return self._random.choice(names)
        if depth <= 0:
            return self._leaf(wanted)
        rules = _RULES[wanted]
        return self._random.choice(rules)(self, depth - 1)

    def _leaf(self, wanted: str) -> str:
        paths = _PATHS.get(wanted)
        if paths and self._random.random() < 0.6:
            return self._random.choice(paths)
        literals = _LITERALS.get(wanted)
        if literals is not None:
            return literals(self)
        return _RULES[wanted][0](self, 0)

    def pick(self, options: tuple[str, ...]) -> str:
        """Return one of some texts."""
        return self._random.choice(options)

    def text(self) -> str:
        """Return a string literal."""
        value = self._random.choice(_TEXTS)
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    def scoped(self, wanted: str, depth: int, **names: str) -> str:
        """Return an expression that may use more variables."""
        self._scope += list(names.items())
        made = self.of(wanted, depth)
        del self._scope[-len(names) :]
        return made

    def variable(self) -> str:
        """Return a name for a variable of a macro."""
        return self._random.choice(("x", "y", "i", "v"))

    def many(self, wanted: str, depth: int) -> str:
        """Return several expressions of a type, separated by commas."""
        return ", ".join([self.of(wanted, depth) for _ in range(self._random.choice((0, 1, 2, 3)))])

    def template(self, template: str, depth: int) -> str:
        """Return a template with `{type}` replaced by expressions; `«»` are braces."""
        parts = template.split("{")
        made = [parts[0]]
        for part in parts[1:]:
            kind, _, rest = part.partition("}")
            made.append((self.text() if kind == "text" else self.of(kind, depth)) + rest)
        return "".join(made).replace("«", "{").replace("»", "}")


Rule = Callable[[ExpressionGenerator, int], str]


def _templates(*templates: str) -> list[Rule]:
    return [_template(template) for template in templates]


def _template(template: str) -> Rule:
    return lambda generator, depth: generator.template(template, depth)


def _choice(template: str, options: tuple[str, ...]) -> Rule:
    return lambda generator, depth: generator.template(template, depth).replace(
        "$", generator.pick(options)
    )


def _macro(function: str, source: str, body: str, element: str) -> Rule:
    def make(generator: ExpressionGenerator, depth: int) -> str:
        name = generator.variable()
        inner = generator.scoped(body, depth, **{name: element})
        return f"{generator.of(source, depth)}.{function}({name}, {inner})"

    return make


def _two_variables(function: str, body: str) -> Rule:
    def make(generator: ExpressionGenerator, depth: int) -> str:
        inner = generator.scoped(body, depth, i="int", v="dyn")
        return f"{generator.of('list_dyn', depth)}.{function}(i, v, {inner})"

    return make


def _literal(options: tuple[str, ...]) -> Rule:
    return lambda generator, _: generator.pick(options)


def _list(element: str) -> Rule:
    return lambda generator, depth: f"[{generator.many(element, depth)}]"


def _map_literal(generator: ExpressionGenerator, depth: int) -> str:
    key, value = generator.text(), generator.of(generator.pick(("int", "string", "dyn")), depth)
    return f"{{{key}: {value}}}"


_LITERALS: dict[str, Callable[[ExpressionGenerator], str]] = {
    "bool": lambda generator: generator.pick(("true", "false")),
    "int": lambda generator: generator.pick(_INTS),
    "uint": lambda generator: generator.pick(_UINTS),
    "double": lambda generator: generator.pick(_DOUBLES),
    "string": ExpressionGenerator.text,
    "bytes": lambda generator: generator.pick(('b"a"', 'b"\\xff"', 'b""', 'b"abc"')),
    "list_string": lambda generator: f"[{generator.many('string', 0)}]",
    "list_int": lambda generator: f"[{generator.many('int', 0)}]",
    "list_dyn": lambda generator: f"[{generator.many('int', 0)}]",
    "map": lambda generator: _map_literal(generator, 0),
    "dyn": lambda generator: f"dyn({generator.pick(_INTS)})",
}
_RULES: dict[str, list[Rule]] = {
    "bool": [
        *_templates(
            "{bool} && {bool}",
            "{bool} || {bool}",
            "!({bool})",
            "{bool} ? {bool} : {bool}",
            "{int} == {int}",
            "{string} == {string}",
            "{string} != {string}",
            "{dyn} == {string}",
            "{dyn} == {dyn}",
            "{dyn} != {dyn}",
            "{int} < {int}",
            "{double} >= {double}",
            "{string} <= {string}",
            "{dyn} > {int}",
            "{dyn} < {dyn}",
            "{int} < {double}",
            "{uint} <= {int}",
            "{string} in {list_string}",
            "{int} in {list_int}",
            "{string} in {map}",
            "{dyn} in {list_dyn}",
            "{string} in [{text}, {text}]",
            "{dyn} in [{int}, {int}]",
            "{string}.startsWith({string})",
            "{string}.endsWith({text})",
            "{string}.contains({string})",
            "{optional}.hasValue()",
            "{optional} == {optional}",
            "{list_string} == {list_string}",
            "{map} == {map}",
            "{duration} < {duration}",
            "{timestamp} >= {timestamp}",
            "{list_int}.isSorted()",
            "{list_dyn}.includes({dyn})",
            "{dyn}.includes({string})",
            "sets.contains({list_int}, {list_int})",
            "sets.intersects({list_string}, {list_string})",
            "sets.equivalent({list_string}, {list_string})",
            "isURL({string})",
            "isIP({string})",
            "isCIDR({string})",
            "isQuantity({string})",
            "isSemver({string})",
            "isSemver({string}, {bool})",
            "{quantity}.isGreaterThan({quantity})",
            "{quantity} == {quantity}",
            "{quantity}.isInteger()",
            "{semver}.isLessThan({semver})",
            "{semver} == {semver}",
            "{cidr}.containsIP({ip})",
            "{cidr}.containsIP({string})",
            "{cidr}.containsCIDR({cidr})",
            "{ip}.isLoopback()",
            "{ip}.isGlobalUnicast()",
            "{ip}.isUnspecified()",
            "{ip}.isLinkLocalUnicast()",
            "{ip}.isLinkLocalMulticast()",
            "{ip} == {ip}",
            "{cidr} == {cidr}",
            "{url} == {url}",
            "ip.isCanonical({string})",
            "type({dyn}) == type({dyn})",
            "type({dyn}) == string",
            "bool({string})",
            "{list_dyn}[{int}] == {dyn}",
            "{optional}.orValue({bool})",
            "{bytes} == {bytes}",
        ),
        _choice('{string}.matches("$")', _PATTERNS),
        _choice('matches({string}, "$")', _PATTERNS),
        _template("{string}.matches({string})"),
        _choice(
            "has($)",
            tuple(
                path
                for paths in _PATHS.values()
                for path in paths
                if "[" not in path and "." in path
            ),
        ),
        *[
            _macro(function, source, "bool", element)
            for function in ("all", "exists", "exists_one")
            for source, element in (
                ("list_string", "string"),
                ("list_int", "int"),
                ("list_dyn", "dyn"),
            )
        ],
        *[
            _two_variables(function, "bool")
            for function in ("all", "exists", "exists_one", "existsOne")
        ],
    ],
    "int": _templates(
        "{int} + {int}",
        "{int} - {int}",
        "{int} * {int}",
        "{int} / {int}",
        "{int} % {int}",
        "-({int})",
        "size({string})",
        "size({list_dyn})",
        "{string}.size()",
        "size({map})",
        "int({string})",
        "int({double})",
        "int({uint})",
        "int({duration})",
        "int({timestamp})",
        "{bool} ? {int} : {int}",
        "{string}.indexOf({string})",
        "{string}.indexOf({text}, {int})",
        "{string}.lastIndexOf({string})",
        "{string}.lastIndexOf({text}, {int})",
        "{list_int}.sum()",
        "{list_int}.max()",
        "{list_int}.min()",
        "{list_dyn}.indexOf({dyn})",
        "{list_dyn}.lastIndexOf({dyn})",
        "{list_int}[{int}]",
        "{quantity}.compareTo({quantity})",
        "{quantity}.asInteger()",
        "sign({quantity})",
        "{semver}.major()",
        "{semver}.patch()",
        "{semver}.compareTo({semver})",
        "{cidr}.prefixLength()",
        "{ip}.family()",
        "{duration}.getHours()",
        "{duration}.getSeconds()",
        "{duration}.getMilliseconds()",
        "{timestamp}.getFullYear()",
        "{timestamp}.getDayOfYear({zone})",
        "{timestamp}.getHours({zone})",
        "{timestamp}.getDayOfWeek()",
        "{timestamp}.getMonth()",
        "{timestamp}.getDate({zone})",
        "{timestamp}.getMilliseconds()",
        "{optional}.orValue({int})",
        "{timestamp}.getMinutes({zone})",
        "{timestamp}.getSeconds()",
        "size({bytes})",
    ),
    "uint": _templates(
        "{uint} + {uint}",
        "{uint} - {uint}",
        "uint({int})",
        "{uint} * {uint}",
        "uint({string})",
        "{uint} / {uint}",
        "{uint} % {uint}",
        "uint({double})",
    ),
    "double": _templates(
        "{double} + {double}",
        "{double} * {double}",
        "{double} / {double}",
        "double({int})",
        "double({string})",
        "-({double})",
        "{quantity}.asApproximateFloat()",
        "double({uint})",
        "{double} - {double}",
    ),
    "string": [
        *_templates(
            "{string} + {string}",
            "string({int})",
            "string({double})",
            "string({duration})",
            "string({timestamp})",
            "string({bool})",
            "string({bytes})",
            "string({uint})",
            "{string}.lowerAscii()",
            "{string}.upperAscii()",
            "{string}.trim()",
            "{string}.replace({text}, {string})",
            "{string}.replace({text}, {text}, {int})",
            "{string}.substring({int})",
            "{string}.substring({int}, {int})",
            "{string}.charAt({int})",
            "{list_string}.join({text})",
            "{list_string}.join()",
            "strings.quote({string})",
            "{bool} ? {string} : {string}",
            "{list_string}[{int}]",
            "{map}[{text}]",
            "{list_string}.max()",
            "{list_string}.min()",
            "{optional}.orValue({text})",
            "{url}.getHost()",
            "{url}.getPort()",
            "{url}.getScheme()",
            "{url}.getEscapedPath()",
            "{url}.getHostname()",
            "string({ip})",
            "string({cidr})",
            '"%s-%d".format([{string}, {int}])',
            '"%s".format([{list_dyn}])',
            '"%.2f|%e".format([{double}, {double}])',
            '"%x %X %b %o".format([{int}, {string}, {int}, {int}])',
            '"%s %s".format([{dyn}, {map}])',
            "{string}.format([{dyn}])",
        ),
        _choice('{string}.find("$")', _PATTERNS),
        _template("{string}.find({string})"),
    ],
    "bytes": _templates("bytes({string})", "{bytes} + {bytes}"),
    "list_string": [
        *_templates(
            "[{string}, {string}]",
            "{list_string} + {list_string}",
            "{string}.split({text})",
            "{string}.split({text}, {int})",
            "{list_string}.sort()",
            "{list_string}.distinct()",
            "{list_string}.reverse()",
            "{list_string}.slice({int}, {int})",
        ),
        _choice('{string}.findAll("$")', _PATTERNS),
        _choice('{string}.findAll("$", {int})', _PATTERNS),
        _macro("map", "list_int", "string", "int"),
        _macro("filter", "list_string", "bool", "string"),
    ],
    "list_int": [
        *_templates(
            "[{int}, {int}]",
            "{list_int} + {list_int}",
            "lists.range({int})",
            "{list_int}.sort()",
            "{list_int}.distinct()",
            "{list_int}.reverse()",
            "{list_int}.slice({int}, {int})",
            "[{list_int}, {list_int}].flatten()",
            "[[{list_int}]].flatten({int})",
            "[?{optional}, {int}]",
            "optional.unwrap([{optional}, {optional}])",
        ),
        _macro("map", "list_string", "int", "string"),
        _macro("filter", "list_int", "bool", "int"),
        _macro("sortBy", "list_int", "int", "int"),
        _two_variables("transformList", "int"),
    ],
    "list_dyn": [
        _list("int"),
        _list("string"),
        _list("dyn"),
        _macro("map", "list_dyn", "dyn", "dyn"),
        _macro("filter", "list_dyn", "bool", "dyn"),
        _two_variables("transformList", "dyn"),
        *_templates("{list_dyn} + {list_dyn}", "{list_dyn}.flatten()", "{list_dyn}.reverse()"),
    ],
    "map": [
        _map_literal,
        *_templates(
            "«{text}: {int}»",
            "«{text}: {string}, {text}: {string}»",
            "«?{text}: {optional}»",
            "«{int}: {bool}»",
            "«{text}: {map}»",
            "{url}.getQuery()",
        ),
        _two_variables("transformMap", "dyn"),
    ],
    "dyn": [
        *_templates(
            "{map}.{field}",
            "{list_dyn}[{int}]",
            "{map}[{string}]",
            "dyn({string})",
            "{dyn}.{field}",
            "{bool} ? {dyn} : {dyn}",
            "{optional}.value()",
            "{dyn} + {dyn}",
            "{dyn}[{int}]",
            "{dyn}[{dyn}]",
            "dyn({list_dyn})",
            "({bool} ? {dyn} : {dyn}).{field}",
            "null",
            "dyn({map})",
            "[{dyn}][0]",
            "{list_dyn}.first().orValue({dyn})",
            "{dyn}.{field}.{field}",
        ),
    ],
    "optional": [
        *_templates(
            "optional.of({dyn})",
            "optional.none()",
            "optional.ofNonZeroValue({dyn})",
            "{dyn}.?{field}",
            "{map}[?{string}]",
            "{list_dyn}[?{int}]",
            "{optional}.or({optional})",
            "{map}.?{field}.?{field}",
            "{list_int}.first()",
            "{list_string}.last()",
            "{dyn}.?{field}.{field}",
            "{bool} ? {optional} : {optional}",
            "format.named({text})",
            "format.dns1123Label().validate({string})",
            "format.qualifiedName().validate({string})",
            "format.uuid().validate({string})",
            "format.dns1123Subdomain().validate({string})",
            "format.date().validate({string})",
            "format.labelValue().validate({string})",
            "format.byte().validate({string})",
            "format.datetime().validate({string})",
            "format.dns1035LabelPrefix().validate({string})",
        ),
        _macro("optMap", "optional", "dyn", "dyn"),
        _macro("optFlatMap", "optional", "optional", "dyn"),
    ],
    "duration": [
        _choice("duration($)", _DURATIONS),
        *_templates(
            "{duration} + {duration}",
            "{duration} - {duration}",
            "{timestamp} - {timestamp}",
            "duration({string})",
        ),
    ],
    "timestamp": [
        _choice("timestamp($)", _TIMESTAMPS),
        *_templates(
            "{timestamp} + {duration}",
            "{timestamp} - {duration}",
            "timestamp({int})",
            "timestamp({string})",
        ),
    ],
    "quantity": [
        _choice("quantity($)", _QUANTITIES),
        *_templates(
            "quantity({string})",
            "{quantity}.add({quantity})",
            "{quantity}.sub({int})",
            "{quantity}.sub({quantity})",
        ),
    ],
    "semver": [
        _choice("semver($)", _SEMVERS),
        *_templates("semver({string})", "semver({string}, {bool})"),
    ],
    "url": [_choice("url($)", _URLS), _template("url({string})")],
    "ip": [_choice("ip($)", _ADDRESSES), *_templates("ip({string})", "{cidr}.ip()")],
    "cidr": [_choice("cidr($)", _RANGES), *_templates("cidr({string})", "{cidr}.masked()")],
    "field": [_literal(("name", "spec", "metadata", "labels", "app", "replicas", "missing", "a"))],
    "zone": [lambda generator, _: f'"{generator.pick(_ZONES)}"'],
}
_TYPES = tuple(kind for kind in _RULES if kind not in ("field", "zone"))


def random_input(random: Random) -> dict[str, object]:
    """Return values for the variables of a policy; maps that are looped over have one entry."""

    def maybe(value: object, otherwise: object = None) -> object:
        return value if random.random() < 0.8 else otherwise

    spec: dict[str, object] = {
        "enabled": maybe(random.random() < 0.5, "yes"),
        "replicas": maybe(random.choice((0, 1, 3, 100, -1)), "3"),
        "ratio": maybe(random.choice((0.5, 1.0, 2.25)), 1),
        "className": maybe(random.choice(("dev", "prod", "")), 7),
        "args": maybe([random.choice(_TEXTS) for _ in range(random.choice((0, 1, 3)))]),
        "ports": maybe([random.choice((80, 443, 8080)) for _ in range(random.choice((0, 2, 3)))]),
        "containers": maybe([{"name": random.choice(_NAMES), "image": "a/b:c"}], []),
        "mixed": maybe([1, "a", None, True, 2.5, [1], {"a": 1}], [3]),
        "nothing": None,
    }
    for name in [name for name in spec if random.random() < 0.15]:
        del spec[name]
    body: dict[str, object] = {
        "kind": "Widget",
        "metadata": {
            "name": maybe(random.choice(_NAMES)),
            "namespace": random.choice(("default", "kube-system")),
            "generation": random.choice((1, 2)),
            "labels": maybe({random.choice(("app", "x-y")): random.choice(_TEXTS)}),
            "annotations": maybe({}, {"a": "b"}),
            "finalizers": maybe(["example.com/a"], []),
        },
        "spec": spec,
    }
    return {
        "object": maybe(body),
        "oldObject": maybe(None, body),
        "request": {
            "verb": random.choice(("create", "update", "get")),
            "userInfo": {"username": "alice", "groups": ["dev", "system:authenticated"]},
        },
        "impersonatedRequest": {"resource": "pods"},
        "options": None,
        "operation": random.choice(("CREATE", "UPDATE")),
        "namespaceObject": None,
    }
